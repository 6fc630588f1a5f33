#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"
#include "ops/nn/loss.h"

namespace horo::ops {

/// The options of evaluate().
struct EvaluationOptions {
  /// Samples per forward pass over all ranks.
  std::size_t global_batch = 1000;
  DataLoaderOptions loader;  ///< of the samples
};

/// The comparison of a model with the targets of a data set.
struct Evaluation {
  std::int64_t correct = 0;  ///< targets whose class has the largest output; 0 without classes
  std::int64_t count = 0;    ///< targets that are not ignored
  double loss_sum = 0;       ///< over these targets
  /// The share of correct targets, 0 to 1.
  double accuracy() const { return ratio(static_cast<double>(correct)); }
  /// The mean loss.
  double loss() const { return ratio(loss_sum); }

 private:
  double ratio(double sum) const { return count > 0 ? sum / static_cast<double>(count) : 0.0; }
};

/// Compares the outputs of `model`, in host memory, with the targets of every sample of `dataset`,
/// each on one of the ranks, and bad samples (BadSamples::kSkip) on none. Collective; all ranks get
/// the same result. Cost: one allreduce of three values.
Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options = {}, const Loss& loss = CrossEntropy());
/// The same with `score`, which returns the score of a batch of at least one counted row, with the
/// sum of the losses.
Evaluation evaluate(Context& context, const std::function<BatchScore(Batch)>& score,
                    const Dataset& dataset, const EvaluationOptions& options = {});
/// The same over the remaining batches of `loader`.
Evaluation evaluate(Context& context, const std::function<BatchScore(Batch)>& score,
                    DataLoader& loader);

/// The sampler of an evaluation: every sample once, in the order of the data set.
GlobalSampler evaluation_sampler(const Context& context, const Dataset& dataset,
                                 std::size_t global_batch);

}  // namespace horo::ops
