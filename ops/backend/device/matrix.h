#pragma once

#include <cstddef>

#include "horo/base/float16.h"
#include "horo/device/stream.h"

namespace horo::ops::device_kernels {

/// The number of floats in the scratch memory of column_sums(): 0 for up to 512 rows.
std::size_t column_sums_scratch(std::size_t rows, std::size_t columns);

/// sums[c] = the sum over all rows of x[row * columns + c], in float: the gradient of a bias. One
/// launch, or two if it needs scratch memory; does not block. Sums are in a fixed order, so results
/// have the same bits in every run. T is float, Float16 or BFloat16. Cost: x is read once; each
/// block handles 32 columns of at least 512 rows.
template <typename T>
void column_sums(device::Stream& stream, T* sums, const T* x, std::size_t rows, std::size_t columns,
                 float* scratch);

/// A contiguous batch of matrices [rows, columns].
struct MatrixBatch {
  std::size_t batch, rows, columns;
};

/// y [batch, columns, rows] = x [batch, rows, columns] with rows and columns exchanged, rounded to
/// nearest in To. With channels as rows and pixels as columns, converts images or filters from
/// channels first to channels last. With the two exchanged, converts back. The arrays must not
/// overlap. One launch; does not block. To and From are float, Float16 or BFloat16. Cost: x is read
/// and y is written once, in tiles of 32 by 32.
template <typename To, typename From>
void transpose(device::Stream& stream, To* y, const From* x, const MatrixBatch& shape);

/// y [rows, y_columns] = x [rows, x_columns]. Columns that only x has are left out; those that only
/// y has become zero. The arrays must not overlap. One launch; does not block. T is float, Float16
/// or BFloat16. Cost: x is read and y is written once.
template <typename T>
void resize_rows(device::Stream& stream, T* y, std::size_t y_columns, const T* x,
                 std::size_t x_columns, std::size_t rows);

}  // namespace horo::ops::device_kernels
