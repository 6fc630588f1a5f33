#pragma once

#include <cstdint>

namespace horo::ops {

/// How an image is cropped and mirrored: pixel (y, x) of the result is pixel (y + down, x + right)
/// of the image, where x is counted from the right end if `is_flipped`. Pixels outside of the image
/// are padding. Kernels read arrays of it.
struct ImageCrop {
  std::int32_t down = 0;        ///< pixels
  std::int32_t right = 0;       ///< pixels
  std::int32_t is_flipped = 0;  ///< 0 or 1
};

}  // namespace horo::ops
