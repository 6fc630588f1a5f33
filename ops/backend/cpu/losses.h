#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/backend/batch_score.h"

namespace horo::ops::cpu {

/// Softmax and cross-entropy in one pass over `logits` [targets.size(), classes], row-major. Writes
/// the gradient of the loss by the logits, (softmax - target distribution) / normaliser, to
/// `gradient` (same size; may be the same array; empty: not computed). Stable for logits of any
/// finite size. Throws InvalidArgument if a target is neither in [0, classes) nor ignored, before
/// anything is written.
BatchScore softmax_cross_entropy(std::span<const float> logits,
                                 std::span<const std::int32_t> targets, std::size_t classes,
                                 double normaliser, std::span<float> gradient,
                                 const CrossEntropyOptions& options = {});

/// The sum of (output - target)^2, divided by `normaliser`. `gradient` as above. `counted` is the
/// number of values.
BatchScore squared_error(std::span<const float> output, std::span<const float> targets,
                         double normaliser, std::span<float> gradient);

}  // namespace horo::ops::cpu
