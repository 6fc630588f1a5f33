#include "collectives/compression/low_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collectives/compression/lane_sum.h"

namespace horo::collectives {

namespace {

// orthonormalise() subtracts from a vector its projections on the preceding vectors. If at most
// this fraction of the norm remains, the remainder counts as rounding error, and the vector becomes
// zero.
constexpr double kDependent = 1e-10;

double dot(const double* a, const double* b, std::size_t length) {
  return sum_in_lanes<double>(length, [&](std::size_t i) { return a[i] * b[i]; });
}

void subtract_projections(double* vector, const double* before, std::size_t count,
                          std::size_t length) {
  for (std::size_t k = 0; k < count; ++k) {
    const double* other = before + k * length;
    const double share = dot(vector, other, length);
    for (std::size_t i = 0; i < length; ++i) vector[i] -= share * other[i];
  }
}

}  // namespace

// If all ranks pass the same bits, all ranks get the same bits without communication, because they
// run the same operations.
bool orthonormalise(float* vectors, std::size_t count, std::size_t length) {
  std::vector<double> exact(vectors, vectors + count * length);
  if (!std::ranges::all_of(exact, [](double x) { return std::isfinite(x); })) return false;
  for (std::size_t k = 0; k < count; ++k) {
    double* vector = exact.data() + k * length;
    const double norm_before = std::sqrt(dot(vector, vector, length));
    // If the vector nearly depends on the preceding vectors, the result of the first pass is not
    // accurately orthogonal to them. The second pass corrects this.
    for (int pass = 0; pass < 2; ++pass) subtract_projections(vector, exact.data(), k, length);
    const double norm = std::sqrt(dot(vector, vector, length));
    const double scale = norm > kDependent * norm_before ? 1 / norm : 0;
    for (std::size_t i = 0; i < length; ++i) vector[i] *= scale;
  }
  std::ranges::transform(exact, vectors, [](double x) { return static_cast<float>(x); });
  return true;
}

namespace {

// The largest number of arrays that add_scaled() adds at a time. With four arrays at a time, the
// destination is read and written a fourth as often as with one.
constexpr std::size_t kAtOnce = 4;

// to[j] += sum of scale[k] * from[k][j] over `count` arrays. `count` is at most kAtOnce.
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

// Reads the matrix in its order in memory. Adds kAtOnce rows at a time to all vectors of the
// factor.
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
