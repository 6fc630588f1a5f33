#pragma once

#include <cstdint>
#include <span>

#include "horo/base/float16.h"
#include "horo/device/stream.h"
#include "ops/backend/shapes.h"
#include "ops/tensor/image_crop.h"
#include "ops/tensor/pixel_scale.h"

namespace horo::ops::device_kernels {

inline constexpr std::size_t kMostPixelChannels = 4;

/// y = x [batch, channels, height, width], each channel with its scale, rounded to nearest, in
/// `layout`. `crops`, one per image in the memory of the device, or null: what is read of x.
/// `scales`: one per channel, at most kMostPixelChannels, in host memory. T is float, Float16 or
/// BFloat16. One launch; does not block. Cost: x is read and y is written once.
template <typename T>
void normalise_pixels(device::Stream& stream, T* y, const std::uint8_t* x, const ImageBatch& images,
                      const ImageCrop* crops, std::span<const PixelScale> scales,
                      ImageLayout layout);

}  // namespace horo::ops::device_kernels
