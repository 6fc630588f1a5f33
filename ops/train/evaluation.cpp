#include "ops/train/evaluation.h"

#include <array>
#include <utility>

#include "ops/nn/cross_entropy_loss.h"

namespace horo::ops {

std::size_t count_correct(Layer& model, Batch batch) {
  const Tensor logits =
      model.forward(std::move(batch.inputs), {.training = false, .samples = batch.samples});
  return cross_entropy_score(logits, batch.labels, static_cast<double>(batch.labels.size()))
      .correct;
}

Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options) {
  return evaluate(
      context, [&](Batch batch) { return count_correct(model, std::move(batch)); }, dataset,
      options);
}

Evaluation evaluate(Context& context, const std::function<std::size_t(Batch)>& count_correct,
                    const Dataset& dataset, const EvaluationOptions& options) {
  const GlobalSampler sampler({.dataset_size = dataset.size(),
                               .global_batch = options.global_batch,
                               .is_shuffled = false,
                               .keeps_partial_batch = true},
                              context.rank(), context.size());
  DataLoader loader(dataset, sampler, 0, sampler.steps_per_epoch(), options.loader);
  // Counts, not fractions, so that the result is exact and does not depend on the number of ranks.
  // One reduction at the end suffices, also for ranks whose last batch is empty.
  std::array<std::int64_t, 2> correct_and_count{};
  while (auto batch = loader.next()) {
    if (batch->labels.empty()) continue;
    const auto count = static_cast<std::int64_t>(batch->labels.size());
    correct_and_count[0] += static_cast<std::int64_t>(count_correct(*std::move(batch)));
    correct_and_count[1] += count;
  }
  context.allreduce(TensorView(correct_and_count),
                    {.name = "train.evaluation", .op = ReduceOp::kSum});
  return {correct_and_count[0], correct_and_count[1]};
}

}  // namespace horo::ops
