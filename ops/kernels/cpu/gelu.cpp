#include "ops/kernels/cpu/gelu.h"

#include <cmath>
#include <cstddef>

namespace horo::ops::cpu {
namespace {

constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

/// 1/2 (1 + tanh(u)) is 1 / (1 + e^-2u).
float share(float x) { return 1 / (1 + std::exp(-kTwiceRoot * (x + kCubic * x * x * x))); }

}  // namespace

void gelu_forward(std::span<float> values) {
  for (float& value : values) value *= share(value);
}

void gelu_backward(std::span<float> gradient, std::span<const float> input) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float x = input[i], s = share(x), slope = s * (1 - s);
    // Far out, where x^2 may be infinite, the slope is zero.
    const float bend = slope == 0 ? 0 : x * slope * kTwiceRoot * (1 + 3 * kCubic * x * x);
    gradient[i] *= s + bend;
  }
}

}  // namespace horo::ops::cpu
