#include "ops/backend/cpu/elementwise.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "ops/backend/cpu/vector_math.h"
#include "ops/backend/philox.h"

namespace horo::ops::cpu {
namespace {

/// Calls compute(i) for 0 ... count - 1, in vectors and, for large arrays, with several threads.
/// The calls must not depend on each other. The loop of one thread is not part of an OpenMP region,
/// because g++ 12 does not turn simple loops there into vectors.
template <typename Compute>
void for_each_index(std::size_t count, Compute compute) {
  constexpr std::size_t kFewest = 32768;  // below, a second thread costs more than it gains
  if (count < kFewest || omp_get_max_threads() == 1) {
    for (std::size_t i = 0; i < count; ++i) compute(i);
    return;
  }
#pragma omp parallel for simd schedule(static) firstprivate(compute)
  for (std::size_t i = 0; i < count; ++i) compute(i);
}

}  // namespace

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
  for_each_index(values.size(),
                 [=](std::size_t i) { values[i] = kept[i] != 0 ? values[i] * factor : 0.0f; });
}

namespace {

constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

/// The share of x that GELU passes, 1/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3). It
/// equals 1 / (1 + e^-2u), which needs one exponential.
inline float share(float x) {
  return 1 / (1 + exp_in_loop(-kTwiceRoot * (x + kCubic * x * x * x)));
}

}  // namespace

void gelu_forward(std::span<float> values) {
  for_each_index(values.size(), [=](std::size_t i) { values[i] *= share(values[i]); });
}

void gelu_backward(std::span<float> gradient, std::span<const float> input) {
  for_each_index(gradient.size(), [=](std::size_t i) {
    const float x = input[i], s = share(x), slope = s * (1 - s);
    // Far out, where x^2 may be infinite, the slope is zero.
    const float bend = slope == 0 ? 0 : x * slope * kTwiceRoot * (1 + 3 * kCubic * x * x);
    gradient[i] *= s + bend;
  });
}

// A NaN compares false and therefore passes through, so that a diverged model shows NaN in its
// loss. A comparison with `> 0` would replace NaN with zero and hide it.
void relu_forward(std::span<float> values) {
  for_each_index(values.size(),
                 [=](std::size_t i) { values[i] = values[i] <= 0.0f ? 0.0f : values[i]; });
}

void relu_backward(std::span<float> gradient, std::span<const float> output) {
  for_each_index(gradient.size(),
                 [=](std::size_t i) { gradient[i] = output[i] != 0.0f ? gradient[i] : 0.0f; });
}

void add_relu_forward(std::span<float> a, std::span<const float> b) {
  for_each_index(a.size(), [=](std::size_t i) {
    const float sum = a[i] + b[i];
    a[i] = sum <= 0.0f ? 0.0f : sum;
  });
}

void add_relu_backward(std::span<float> a, std::span<const float> b,
                       std::span<const float> output) {
  for_each_index(a.size(), [=](std::size_t i) { a[i] = output[i] != 0.0f ? a[i] + b[i] : 0.0f; });
}

void transpose(std::span<const float> x, std::size_t batch, std::size_t rows, std::size_t columns,
               std::span<float> y) {
  const std::size_t count = rows * columns;
#pragma omp parallel for schedule(static)
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        y[n * count + column * rows + row] = x[n * count + row * columns + column];
}

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  for_each_index(sum.size(), [=](std::size_t i) { sum[i] = a[i] + b[i]; });
}

}  // namespace horo::ops::cpu
