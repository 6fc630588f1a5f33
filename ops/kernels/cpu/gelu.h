#pragma once

#include <span>

namespace horo::ops::cpu {

/// Replaces each value x by x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: Hendrycks,
/// Gimpel, "Gaussian error linear units" (2016).
void gelu_forward(std::span<float> values);
/// Multiplies each gradient by the derivative at `input`, which the forward pass was given. Both
/// spans have the same length.
void gelu_backward(std::span<float> gradient, std::span<const float> input);

}  // namespace horo::ops::cpu
