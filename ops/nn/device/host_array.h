#pragma once

#include <cstddef>
#include <vector>

#include "ops/kernels/image_format.h"
#include "ops/kernels/shapes.h"

// Private to ops/nn/device.

namespace horo::ops {

/// How an array of images, filters or vectors lies in the stand-in's memory.
struct HostArray {
  DataType type = DataType::kFloat32;  ///< or kBFloat16
  std::size_t batch = 0;               ///< or out channels, of filters
  std::size_t channels = 0;
  std::size_t pixels = 1;
  bool is_channels_last = false;

  HostArray(const ImageBatch& images, const ImageFormat& format)
      : type(format.type),
        batch(images.batch),
        channels(images.channels),
        pixels(images.height * images.width),
        is_channels_last(format.layout == ImageLayout::kChannelsLast) {}
  /// [rows, columns].
  HostArray(std::size_t rows, std::size_t columns, DataType type_)
      : type(type_), batch(rows), channels(columns) {}

  std::size_t count() const { return batch * channels * pixels; }
};

/// The values at `data` as the CPU's kernels take them: float32, [batch, channels, pixels].
std::vector<float> read(const HostArray& array, const void* data);
/// The way back, rounding to nearest.
void write(const HostArray& array, const std::vector<float>& values, void* data);

}  // namespace horo::ops
