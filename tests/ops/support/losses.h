#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "ops/nn/loss.h"

namespace horo::ops {

struct CrossEntropyResult {
  double value = 0;
  std::size_t correct = 0;
  Tensor gradient;
};

/// The mean cross-entropy of a batch with one label per sample, in host memory.
inline CrossEntropyResult cross_entropy_loss(Tensor logits, std::span<const std::int32_t> labels,
                                             double samples) {
  Tensor targets(Shape{labels.size()}, DataType::kInt32);
  std::ranges::copy(labels, targets.data<std::int32_t>());
  BatchScore score;
  Tensor gradient =
      CrossEntropy().backward(cpu_backend(), std::move(logits), targets, samples, &score);
  return {score.loss, score.correct, std::move(gradient)};
}

}  // namespace horo::ops
