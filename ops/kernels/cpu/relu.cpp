#include "ops/kernels/cpu/relu.h"

#include <cstddef>

namespace horo::ops::cpu {

void relu_forward(std::span<float> values, std::span<std::uint8_t> passed) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_blocked = values[i] <= 0.0f;  // false for NaN
    passed[i] = is_blocked ? 0 : 1;
    values[i] = is_blocked ? 0.0f : values[i];
  }
}

void relu_forward(std::span<float> values) {
  for (float& value : values) value = value <= 0.0f ? 0.0f : value;
}

void relu_backward(std::span<float> gradient, std::span<const std::uint8_t> passed) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = passed[i] != 0 ? gradient[i] : 0.0f;
  }
}

}  // namespace horo::ops::cpu
