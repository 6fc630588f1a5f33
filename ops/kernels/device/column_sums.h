#pragma once

#include <cstddef>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

namespace horo::ops::device_kernels {

/// sums[c] = the sum over all rows of x[row * columns + c], in float: the gradient of a bias. One
/// launch; does not block; sums in a fixed order: the same bits every run. T: float, Float16 or
/// BFloat16. Cost: x is read once, 32 columns by a block.
template <typename T>
void column_sums(device::Stream& stream, T* sums, const T* x, std::size_t rows,
                 std::size_t columns);

}  // namespace horo::ops::device_kernels
