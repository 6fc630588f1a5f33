#pragma once

#include <memory>

#include "horo/device/caching_allocator.h"
#include "ops/backend/operations.h"

// Private to ops/backend.

namespace horo::ops {

/// Whether the libraries need more input channels than the shape has: their convolutions of
/// bfloat16 in channels-last order read words of 16 bytes. For 1, 3, 5 or 7 channels, cuDNN may
/// have no algorithm that gives the same bits in every run.
bool needs_padded_channels(const ConvolutionShape& shape, const ImageFormat& format);
/// The shape with the next multiple of 8 input channels.
ConvolutionShape with_padded_channels(ConvolutionShape shape);

/// A convolution of `shape` in bfloat16 and channels-last order, computed by `padded`, a
/// convolution of with_padded_channels(shape). Additional channels of input and weights are zero.
/// They are copied in each call to memory from `allocator`, which like `stream` must outlive this.
std::unique_ptr<WeightedOperation> make_padded_convolution(
    std::unique_ptr<WeightedOperation> padded, const ConvolutionShape& shape,
    device::Stream& stream, device::CachingAllocator& allocator);

}  // namespace horo::ops
