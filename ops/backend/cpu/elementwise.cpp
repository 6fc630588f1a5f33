#include "ops/backend/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ops/backend/philox.h"

namespace horo::ops::cpu {

// One call of philox() gives the 32-bit numbers of four features. A value is dropped if its number
// is below probability * 2^32, so that the mask is the same on every machine.
void draw_dropout_mask(std::uint64_t key, std::span<const std::uint64_t> samples,
                       std::size_t features, float drop_probability, std::span<std::uint8_t> kept) {
  const auto threshold = static_cast<std::uint64_t>(static_cast<double>(drop_probability) * 0x1p32);
  auto* row = kept.data();
  for (const std::uint64_t sample : samples) {
    for (std::size_t feature = 0; feature < features; feature += 4) {
      const auto words = philox(key, sample, feature / 4);
      const std::size_t count = std::min<std::size_t>(4, features - feature);
      for (std::size_t i = 0; i < count; ++i) row[feature + i] = words[i] >= threshold ? 1 : 0;
    }
    row += features;
  }
}

void apply_dropout(std::span<float> values, std::span<const std::uint8_t> kept, float factor) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = kept[i] != 0 ? values[i] * factor : 0.0f;
  }
}

namespace {

constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

/// The share of x that GELU passes, 1/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3). It
/// equals 1 / (1 + e^-2u), which needs one exponential.
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

// A NaN compares false and therefore passes through, so that a diverged model shows NaN in its
// loss. A comparison with `> 0` would replace NaN with zero and hide it.
void relu_forward(std::span<float> values) {
  for (float& value : values) value = value <= 0.0f ? 0.0f : value;
}

void relu_backward(std::span<float> gradient, std::span<const float> output) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = output[i] != 0.0f ? gradient[i] : 0.0f;
  }
}

}  // namespace horo::ops::cpu
