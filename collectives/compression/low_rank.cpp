#include "collectives/compression/low_rank.h"

#include <algorithm>

#include "collectives/compression/lane_sum.h"

namespace horo::collectives {
namespace {

// The inner loops take this many rows of a factor at a time, so that what they add to is read and
// written a fourth as often.
constexpr std::size_t kAtOnce = 4;

// to[j] += sum of scale[k] * from[k][j]: `count` (at most kAtOnce) scaled arrays, in order.
void add_scaled(std::size_t count, const float* scale, const float* const* from, std::size_t length,
                float* to) {
  if (count == kAtOnce) {
    const float a = scale[0], b = scale[1], c = scale[2], d = scale[3];
    const float *x = from[0], *y = from[1], *z = from[2], *w = from[3];
    for (std::size_t j = 0; j < length; ++j) to[j] += (a * x[j] + b * y[j]) + (c * z[j] + d * w[j]);
    return;
  }
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t j = 0; j < length; ++j) to[j] += scale[k] * from[k][j];
}

// to[j] += sign * (row i of left^T * right)[j]
void add_row_of_product(const LowRank& shape, std::size_t i, float sign, const float* left,
                        const float* right, float* to) {
  for (std::size_t k = 0; k < shape.rank; k += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, shape.rank - k);
    float scale[kAtOnce];
    const float* from[kAtOnce];
    for (std::size_t c = 0; c < count; ++c) {
      scale[c] = sign * left[(k + c) * shape.rows + i];
      from[c] = right + (k + c) * shape.columns;
    }
    add_scaled(count, scale, from, shape.columns, to);
  }
}

}  // namespace

void project_rows(const LowRank& shape, const float* matrix, const float* right, float* left) {
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t k = 0; k < shape.rank; ++k) {
      const float* x = matrix + i * shape.columns;
      const float* y = right + k * shape.columns;
      left[k * shape.rows + i] =
          sum_in_lanes<float>(shape.columns, [&](std::size_t j) { return x[j] * y[j]; });
    }
}

void project_columns(const LowRank& shape, const float* matrix, const float* left, float* right) {
  std::fill_n(right, shape.rank * shape.columns, 0.0f);
  for (std::size_t i = 0; i < shape.rows; i += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, shape.rows - i);
    const float* from[kAtOnce];
    for (std::size_t c = 0; c < count; ++c) from[c] = matrix + (i + c) * shape.columns;
    for (std::size_t k = 0; k < shape.rank; ++k)
      add_scaled(count, left + k * shape.rows + i, from, shape.columns, right + k * shape.columns);
  }
}

void multiply(const LowRank& shape, const float* left, const float* right, float* out) {
  std::fill_n(out, shape.rows * shape.columns, 0.0f);
  for (std::size_t i = 0; i < shape.rows; ++i)
    add_row_of_product(shape, i, 1.0f, left, right, out + i * shape.columns);
}

double subtract_product(const LowRank& shape, const float* matrix, const float* left,
                        const float* right, float* out) {
  double squares = 0;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    float* row = out + i * shape.columns;
    if (out != matrix) std::copy_n(matrix + i * shape.columns, shape.columns, row);
    add_row_of_product(shape, i, -1.0f, left, right, row);
    squares += sum_of_squares({row, shape.columns});
  }
  return squares;
}

}  // namespace horo::collectives
