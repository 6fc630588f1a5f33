#pragma once

#include <cstddef>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

namespace horo::ops::device_kernels {

/// A batch of matrices [rows, columns], one after the other.
struct MatrixBatch {
  std::size_t batch, rows, columns;
};

/// y [batch, columns, rows] = x [batch, rows, columns] with rows and columns exchanged, to the
/// nearest in To. With rows for channels and columns for pixels it brings images, or filters, from
/// channels first to channels last, and with the two exchanged back. The arrays do not overlap. One
/// launch; does not block. To, From: float, Float16 or BFloat16. Cost: x is read and y written
/// once, through tiles of 32 by 32.
template <typename To, typename From>
void transpose(device::Stream& stream, To* y, const From* x, const MatrixBatch& shape);

}  // namespace horo::ops::device_kernels
