#include "ops/backend/cpu/elementwise.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "ops/backend/cpu/vector_clones.h"
#include "ops/backend/cpu/vector_math.h"
#include "ops/backend/philox.h"

namespace horo::ops::cpu {
namespace {

/// Calls compute(first, count) for parts of 0 ... total - 1, each on a thread of its own. The parts
/// of small arrays and of one thread are the whole.
template <typename Compute>
void for_each_part(std::size_t total, const Compute& compute) {
  constexpr std::size_t kFewest = 32768;  // below, a second thread costs more than it gains
  constexpr std::size_t kUnit = 64;       // whole cache lines of floats and of bytes
  const auto parts = static_cast<std::size_t>(omp_get_max_threads());
  if (total < kFewest || parts == 1) return compute(std::size_t{0}, total);
  const std::size_t units = total / kUnit;
#pragma omp parallel for schedule(static)
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = units * part / parts * kUnit;
    const std::size_t last = part + 1 == parts ? total : units * (part + 1) / parts * kUnit;
    compute(first, last - first);
  }
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

namespace {

HORO_VECTOR_CLONES void apply_dropout_part(float* values, const std::uint8_t* kept, float factor,
                                           std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = kept[i] != 0 ? values[i] * factor : 0.0f;
}

}  // namespace

void apply_dropout(std::span<float> values, std::span<const std::uint8_t> kept, float factor) {
  for_each_part(values.size(), [&](std::size_t first, std::size_t count) {
    apply_dropout_part(values.data() + first, kept.data() + first, factor, count);
  });
}

namespace {

constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

/// The share of x that GELU passes, 1/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3). It
/// equals 1 / (1 + e^-2u), which needs one exponential.
inline float share(float x) {
  return 1 / (1 + exp_in_loop(-kTwiceRoot * (x + kCubic * x * x * x)));
}

HORO_VECTOR_CLONES void gelu_part(float* values, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] *= share(values[i]);
}

HORO_VECTOR_CLONES void gelu_backward_part(float* gradient, const float* input, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float x = input[i], s = share(x), slope = s * (1 - s);
    // Far out, where x^2 may be infinite, the slope is zero.
    const float bend = slope == 0 ? 0 : x * slope * kTwiceRoot * (1 + 3 * kCubic * x * x);
    gradient[i] *= s + bend;
  }
}

// A NaN compares false and therefore passes through, so that a diverged model shows NaN in its
// loss. A comparison with `> 0` would replace NaN with zero and hide it.
HORO_VECTOR_CLONES void relu_part(float* values, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] <= 0.0f ? 0.0f : values[i];
}

HORO_VECTOR_CLONES void relu_backward_part(float* gradient, const float* output,
                                           std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) gradient[i] = output[i] != 0.0f ? gradient[i] : 0.0f;
}

HORO_VECTOR_CLONES void add_relu_part(float* a, const float* b, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum <= 0.0f ? 0.0f : sum;
  }
}

HORO_VECTOR_CLONES void add_relu_backward_part(float* a, const float* b, const float* output,
                                               std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) a[i] = output[i] != 0.0f ? a[i] + b[i] : 0.0f;
}

HORO_VECTOR_CLONES void add_part(const float* a, const float* b, float* sum, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

}  // namespace

void gelu_forward(std::span<float> values) {
  for_each_part(values.size(), [&](std::size_t first, std::size_t count) {
    gelu_part(values.data() + first, count);
  });
}

void gelu_backward(std::span<float> gradient, std::span<const float> input) {
  for_each_part(gradient.size(), [&](std::size_t first, std::size_t count) {
    gelu_backward_part(gradient.data() + first, input.data() + first, count);
  });
}

void relu_forward(std::span<float> values) {
  for_each_part(values.size(), [&](std::size_t first, std::size_t count) {
    relu_part(values.data() + first, count);
  });
}

void relu_backward(std::span<float> gradient, std::span<const float> output) {
  for_each_part(gradient.size(), [&](std::size_t first, std::size_t count) {
    relu_backward_part(gradient.data() + first, output.data() + first, count);
  });
}

void add_relu_forward(std::span<float> a, std::span<const float> b) {
  for_each_part(a.size(), [&](std::size_t first, std::size_t count) {
    add_relu_part(a.data() + first, b.data() + first, count);
  });
}

void add_relu_backward(std::span<float> a, std::span<const float> b,
                       std::span<const float> output) {
  for_each_part(a.size(), [&](std::size_t first, std::size_t count) {
    add_relu_backward_part(a.data() + first, b.data() + first, output.data() + first, count);
  });
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
  for_each_part(sum.size(), [&](std::size_t first, std::size_t count) {
    add_part(a.data() + first, b.data() + first, sum.data() + first, count);
  });
}

}  // namespace horo::ops::cpu
