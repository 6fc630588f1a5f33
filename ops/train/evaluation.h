#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"

namespace horo::ops {

struct EvaluationOptions {
  /// Samples per forward pass over all ranks.
  std::size_t global_batch = 1000;
  DataLoaderOptions loader;
};

/// The number of correctly classified samples of a data set.
struct Evaluation {
  std::int64_t correct = 0;
  std::int64_t count = 0;
  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0.0;
  }
};

/// Classifies every sample of `dataset` once, on one of the ranks, by the largest output of `model`
/// [batch, classes]. Collective; all ranks get the same result. Cost: one allreduce of two counts.
Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options = {});
/// The same with `count_correct`, which returns the number of correct samples of a batch of at
/// least one sample.
Evaluation evaluate(Context& context, const std::function<std::size_t(Batch)>& count_correct,
                    const Dataset& dataset, const EvaluationOptions& options = {});

/// Classifies by the largest output of `model`.
std::size_t count_correct(Layer& model, Batch batch);

}  // namespace horo::ops
