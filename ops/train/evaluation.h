#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"

namespace horo::ops {

struct EvaluationOptions {
  /// Samples per forward pass, over all ranks.
  std::size_t global_batch = 1000;
  DataLoaderOptions loader;
};

/// How many samples of a data set a classifier gets right.
struct Evaluation {
  std::int64_t correct = 0;
  std::int64_t count = 0;
  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0.0;
  }
};

/// Classifies every sample of `dataset` once, each on one rank, by the largest output of `model`
/// [batch, classes]. Collective; the same result on every rank. One allreduce of two counts.
Evaluation evaluate(Context& context, Layer& model, const Dataset& dataset,
                    const EvaluationOptions& options = {});
/// The same by `count_correct`, which says of a batch, of at least one sample, how many are right.
Evaluation evaluate(Context& context, const std::function<std::size_t(Batch)>& count_correct,
                    const Dataset& dataset, const EvaluationOptions& options = {});

/// By the largest output of `model`.
std::size_t count_correct(Layer& model, Batch batch);

}  // namespace horo::ops
