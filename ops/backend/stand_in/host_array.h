#pragma once

#include <cstddef>
#include <vector>

#include "ops/backend/shapes.h"

// Private to ops/backend/stand_in.

namespace horo::ops {

/// The layout of an array of images, filters or vectors in the memory of device::HostDevice.
struct HostArray {
  DataType type = DataType::kFloat32;  ///< or kBFloat16 or kFloat16
  std::size_t batch = 0;               ///< for filters: output channels
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

/// Converts the values at `data` to the form of the CPU kernels: float32, [batch, channels,
/// pixels].
std::vector<float> read(const HostArray& array, const void* data);
/// Converts in the other direction and rounds to nearest.
void write(const HostArray& array, const std::vector<float>& values, void* data);

}  // namespace horo::ops
