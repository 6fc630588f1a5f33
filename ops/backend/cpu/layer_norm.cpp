#include "ops/backend/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/backend/cpu/vector_clones.h"

namespace horo::ops::cpu {
namespace {

// The number of columns whose parameter gradients one thread sums: a cache line of each row.
constexpr std::size_t kColumnStrip = 16;

struct RowStatistics {
  float mean, inverse_deviation;
};

// Two passes over a row, which is in the cache: the mean of squared differences keeps its precision
// if the mean is large.
HORO_VECTOR_CLONES RowStatistics normalise_row(const float* from, const float* scale,
                                               const float* shift, std::size_t columns,
                                               float epsilon, float* to) {
  const auto count = static_cast<float>(columns);
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
  return {mean, inverse};
}

/// Adds the gradients of one row to those by `width` values of the scale and of the shift.
HORO_VECTOR_CLONES void add_parameter_gradients(const float* gradient, const float* from,
                                                RowStatistics row, std::size_t width,
                                                float* scale_gradient, float* shift_gradient) {
#pragma omp simd
  for (std::size_t c = 0; c < width; ++c) {
    scale_gradient[c] += gradient[c] * (from[c] - row.mean) * row.inverse_deviation;
    shift_gradient[c] += gradient[c];
  }
}

HORO_VECTOR_CLONES void write_row_gradient(const float* gradient, const float* from,
                                           const float* scale, RowStatistics row,
                                           std::size_t columns, float* to) {
  const auto count = static_cast<float>(columns);
  const float mean = row.mean, inverse = row.inverse_deviation;
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

}  // namespace

void layer_norm_forward(std::span<const float> x, std::span<const float> scale,
                        std::span<const float> shift, float epsilon, std::span<float> y,
                        std::span<float> statistics) {
  const std::size_t columns = scale.size(), rows = x.size() / columns;
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row) {
    const RowStatistics found = normalise_row(x.data() + row * columns, scale.data(), shift.data(),
                                              columns, epsilon, y.data() + row * columns);
    statistics[row] = found.mean;
    statistics[rows + row] = found.inverse_deviation;
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
    const std::size_t width = std::min(kColumnStrip, columns - first);
    for (std::size_t row = 0; row < rows; ++row)
      add_parameter_gradients(dy.data() + row * columns + first, x.data() + row * columns + first,
                              {statistics[row], statistics[rows + row]}, width,
                              scale_gradient.data() + first, shift_gradient.data() + first);
  }
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row)
    write_row_gradient(dy.data() + row * columns, x.data() + row * columns, scale.data(),
                       {statistics[row], statistics[rows + row]}, columns,
                       dx.data() + row * columns);
}

}  // namespace horo::ops::cpu
