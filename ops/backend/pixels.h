#pragma once

#include <span>

#include "ops/backend/backend.h"
#include "ops/tensor/pixel_scale.h"

namespace horo::ops {

/// The values of uint8 pixels [batch, channels, height, width] in host order, each channel with its
/// scale, in the own order and the type of `backend`, in whose memory the pixels are. With `crops`,
/// the ImageCrop of each image as int32 [batch, 3] in the same memory, the images are cropped and
/// flipped in the same pass; the padding has padding_pixel() of its channel. On a device: one
/// launch. Throws InvalidArgument for another type or shape, or for another number of scales than
/// channels.
Tensor normalised(Backend& backend, const Tensor& pixels, std::span<const PixelScale> scales,
                  const Tensor* crops = nullptr);

}  // namespace horo::ops
