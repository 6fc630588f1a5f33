#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/device/launch.h"
#include "ops/tensor/image_crop.h"

namespace horo::ops {

/// The pixel of an image of `height` rows of `width` pixels that becomes pixel `at` of the crop;
/// height * width if it is padding.
HORO_KERNEL inline std::size_t source_pixel(const ImageCrop& crop, std::size_t height,
                                            std::size_t width, std::size_t at) {
  const auto y = static_cast<std::int64_t>(at / width) + crop.down;
  const std::size_t column = at % width;
  const auto x =
      static_cast<std::int64_t>(crop.is_flipped != 0 ? width - 1 - column : column) + crop.right;
  const bool is_inside = y >= 0 && y < static_cast<std::int64_t>(height) && x >= 0 &&
                         x < static_cast<std::int64_t>(width);
  return is_inside ? static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x)
                   : height * width;
}

}  // namespace horo::ops
