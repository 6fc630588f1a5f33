#pragma once

#include <cstddef>

namespace horo::collectives {

/// A row-major matrix of `rows` by `columns` is to be near left^T times right, where `left` has
/// `rank` rows of `rows` values and `right` `rank` rows of `columns` values. (Both factors have the
/// short side first, so that every loop runs along memory.) Every sum has one order, the same with
/// any instruction set. No overlap, but for `out` of subtract_product(), which may be `matrix`.
struct LowRank {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

/// left = right * matrix^T. Reads the matrix once; 2 * rank * rows * columns operations, as the
/// others.
void project_rows(const LowRank& shape, const float* matrix, const float* right, float* left);
/// right = left * matrix.
void project_columns(const LowRank& shape, const float* matrix, const float* left, float* right);
/// out = left^T * right.
void multiply(const LowRank& shape, const float* left, const float* right, float* out);
/// out = matrix - left^T * right; returns the sum of the squares of `out`.
double subtract_product(const LowRank& shape, const float* matrix, const float* left,
                        const float* right, float* out);

}  // namespace horo::collectives
