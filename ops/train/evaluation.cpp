#include "ops/train/evaluation.h"

#include <array>
#include <utility>

#include "ops/train/step/train_step.h"

namespace horo::ops {

Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options, const Loss& loss) {
  const auto score = [&](Batch batch) {
    Tensor input = model_input(model.backend(), batch);
    const Tensor output =
        model.forward(std::move(input), {.training = false, .samples = batch.sample_indices()});
    BatchScore result;
    const std::size_t rows = batch.counted_rows();
    loss.score(model.backend(), output.rows(0, rows), batch.targets.rows(0, rows), &result);
    return result;
  };
  return evaluate(context, score, dataset, options);
}

GlobalSampler evaluation_sampler(const Context& context, const Dataset& dataset,
                                 std::size_t global_batch) {
  return GlobalSampler({.dataset_size = dataset.size(),
                        .global_batch = global_batch,
                        .is_shuffled = false,
                        .last_batch = LastBatch::kPartial},
                       context.rank(), context.size());
}

Evaluation evaluate(Context& context, const std::function<BatchScore(Batch)>& score,
                    const Dataset& dataset, const EvaluationOptions& options) {
  const GlobalSampler sampler = evaluation_sampler(context, dataset, options.global_batch);
  DataLoader loader(dataset, sampler, 0, sampler.steps_per_epoch(), options.loader);
  return evaluate(context, score, loader);
}

Evaluation evaluate(Context& context, const std::function<BatchScore(Batch)>& score,
                    DataLoader& loader) {
  // Sums, not fractions, so that the result does not depend on the number of ranks, except for the
  // rounding of the loss. One reduction at the end suffices, also for ranks whose last batch is
  // empty. The counts are exact in float64.
  std::array<double, 3> sums{};
  while (auto batch = loader.next()) {
    if (batch->counted_rows() == 0) continue;
    const BatchScore own = score(*std::move(batch));
    sums[0] += static_cast<double>(own.correct);
    sums[1] += static_cast<double>(own.counted);
    sums[2] += own.loss;
  }
  context.allreduce(TensorView(sums), {.name = "train.evaluation", .op = ReduceOp::kSum});
  return {static_cast<std::int64_t>(sums[0]), static_cast<std::int64_t>(sums[1]), sums[2]};
}

}  // namespace horo::ops
