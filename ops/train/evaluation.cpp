#include "ops/train/evaluation.h"

#include <array>
#include <utility>

namespace horo::ops {

Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options, const Loss& loss) {
  const auto score = [&](Batch batch) {
    const Tensor output = model.forward(std::move(batch.inputs),
                                        {.training = false, .samples = batch.sample_indices()});
    BatchScore result;
    loss.score(model.backend(), output, batch.targets, &result);
    return result;
  };
  return evaluate(context, score, dataset, options);
}

Evaluation evaluate(Context& context, const std::function<BatchScore(Batch)>& score,
                    const Dataset& dataset, const EvaluationOptions& options) {
  const GlobalSampler sampler({.dataset_size = dataset.size(),
                               .global_batch = options.global_batch,
                               .is_shuffled = false,
                               .keeps_partial_batch = true},
                              context.rank(), context.size());
  DataLoader loader(dataset, sampler, 0, sampler.steps_per_epoch(), options.loader);
  // Sums, not fractions, so that the result does not depend on the number of ranks, except for the
  // rounding of the loss. One reduction at the end suffices, also for ranks whose last batch is
  // empty. The counts are exact in float64.
  std::array<double, 3> sums{};
  while (auto batch = loader.next()) {
    if (batch->rows() == 0) continue;
    const BatchScore own = score(*std::move(batch));
    sums[0] += static_cast<double>(own.correct);
    sums[1] += static_cast<double>(own.counted);
    sums[2] += own.loss;
  }
  context.allreduce(TensorView(sums), {.name = "train.evaluation", .op = ReduceOp::kSum});
  return {static_cast<std::int64_t>(sums[0]), static_cast<std::int64_t>(sums[1]), sums[2]};
}

}  // namespace horo::ops
