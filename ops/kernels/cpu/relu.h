#pragma once

#include <cstdint>
#include <span>

namespace horo::ops::cpu {

/// Replaces negative values by zero, in place; NaN stays. `passed[i]` becomes 1 where the value
/// went through and 0 elsewhere. Both spans have the same length. (A loop of our own: it needs a
/// byte per value for the backward pass, where keeping the input would need four.)
void relu_forward(std::span<float> values, std::span<std::uint8_t> passed);
/// The same without the record, for inference.
void relu_forward(std::span<float> values);
/// Zeroes, in place, the gradient where the value did not go through.
void relu_backward(std::span<float> gradient, std::span<const std::uint8_t> passed);

}  // namespace horo::ops::cpu
