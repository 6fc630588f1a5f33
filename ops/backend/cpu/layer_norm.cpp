#include "ops/backend/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>

namespace horo::ops::cpu {
namespace {

// The number of columns whose parameter gradients one thread sums: a cache line of each row.
constexpr std::size_t kColumnStrip = 16;

}  // namespace

// Two passes over a row, which is in the cache: the mean of squared differences keeps its precision
// if the mean is large.
void layer_norm_forward(std::span<const float> x, std::span<const float> scale,
                        std::span<const float> shift, float epsilon, std::span<float> y,
                        std::span<float> statistics) {
  const std::size_t columns = scale.size(), rows = x.size() / columns;
  const auto count = static_cast<float>(columns);
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const from = x.data() + row * columns;
    float* const to = y.data() + row * columns;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t c = 0; c < columns; ++c) sum += from[c];
    const float mean = sum / count;
#pragma omp simd reduction(+ : squares)
    for (std::size_t c = 0; c < columns; ++c) squares += (from[c] - mean) * (from[c] - mean);
    const float inverse = 1 / std::sqrt(squares / count + epsilon);
#pragma omp simd
    for (std::size_t c = 0; c < columns; ++c)
      to[c] = (from[c] - mean) * inverse * scale[c] + shift[c];
    statistics[row] = mean;
    statistics[rows + row] = inverse;
  }
}

// With g = dy * scale and the normalised row n: dx = (g - mean(g) - n mean(g n)) / deviation. The
// gradients of the parameters come first, because dx may overwrite dy.
void layer_norm_backward(std::span<const float> dy, std::span<const float> x,
                         std::span<const float> scale, std::span<const float> statistics,
                         std::span<float> dx, std::span<float> scale_gradient,
                         std::span<float> shift_gradient) {
  const std::size_t columns = scale.size(), rows = x.size() / columns;
  std::ranges::fill(scale_gradient, 0.0f);
  std::ranges::fill(shift_gradient, 0.0f);
#pragma omp parallel for schedule(static)
  for (std::size_t first = 0; first < columns; first += kColumnStrip) {
    const std::size_t last = std::min(first + kColumnStrip, columns);
    for (std::size_t row = 0; row < rows; ++row) {
      const float mean = statistics[row], inverse = statistics[rows + row];
#pragma omp simd
      for (std::size_t c = first; c < last; ++c) {
        const float gradient = dy[row * columns + c];
        scale_gradient[c] += gradient * (x[row * columns + c] - mean) * inverse;
        shift_gradient[c] += gradient;
      }
    }
  }
  const auto count = static_cast<float>(columns);
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const gradient = dy.data() + row * columns;
    const float* const from = x.data() + row * columns;
    float* const to = dx.data() + row * columns;
    const float mean = statistics[row], inverse = statistics[rows + row];
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::size_t c = 0; c < columns; ++c) {
      sum += gradient[c] * scale[c];
      product += gradient[c] * scale[c] * (from[c] - mean);
    }
    const float mean_gradient = sum / count, mean_product = product * inverse * inverse / count;
#pragma omp simd
    for (std::size_t c = 0; c < columns; ++c)
      to[c] = inverse * (gradient[c] * scale[c] - mean_gradient - (from[c] - mean) * mean_product);
  }
}

}  // namespace horo::ops::cpu
