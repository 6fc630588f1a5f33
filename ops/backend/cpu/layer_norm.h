#pragma once

#include <cstddef>
#include <span>

namespace horo::ops::cpu {

/// Layer normalisation of the rows of `x` [rows, columns]: y = (x - mean) / sqrt(variance +
/// epsilon) * scale + shift, with scale and shift [columns]. Writes the mean and 1 / sqrt(variance
/// + epsilon) of each row to statistics [2, rows]. Sums are in a fixed order.
void layer_norm_forward(std::span<const float> x, std::span<const float> scale,
                        std::span<const float> shift, float epsilon, std::span<float> y,
                        std::span<float> statistics);

/// Overwrites the gradients by x, scale and shift. dx may be dy.
void layer_norm_backward(std::span<const float> dy, std::span<const float> x,
                         std::span<const float> scale, std::span<const float> statistics,
                         std::span<float> dx, std::span<float> scale_gradient,
                         std::span<float> shift_gradient);

}  // namespace horo::ops::cpu
