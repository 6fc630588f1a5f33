#pragma once

#include "horo/base/data_type.h"

namespace horo::ops {

/// How images and filters lie in memory. Sizes are named as in shapes.h either way.
enum class ImageLayout {
  kChannelsFirst,  ///< [batch, channels, height, width], filters [out, in, height, width]
  kChannelsLast,   ///< [batch, height, width, channels], filters [out, height, width, in]
};

struct ImageFormat {
  DataType type = DataType::kFloat32;  ///< or kBFloat16
  ImageLayout layout = ImageLayout::kChannelsLast;
};

}  // namespace horo::ops
