#pragma once

#include <vector>

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/images.h"

namespace horo::ops {

/// Converts images from the layout of the reference, [batch, channels, height, width], to `layout`.
template <typename T>
std::vector<T> laid_out(const std::vector<T>& values, const ImageBatch& images,
                        ImageLayout layout) {
  if (layout == ImageLayout::kChannelsFirst) return values;
  std::vector<T> result(values.size());
  reference::for_each_pixel(
      images, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
        result[((n * images.height + y) * images.width + x) * images.channels + c] =
            values[reference::pixel(images, n, c, y, x)];
      });
  return result;
}

/// The inverse of laid_out().
template <typename T>
std::vector<T> as_reference(const std::vector<T>& values, const ImageBatch& images,
                            ImageLayout layout) {
  if (layout == ImageLayout::kChannelsFirst) return values;
  std::vector<T> result(values.size());
  reference::for_each_pixel(
      images, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
        result[reference::pixel(images, n, c, y, x)] =
            values[((n * images.height + y) * images.width + x) * images.channels + c];
      });
  return result;
}

/// Filters have the layout of images, with one filter for each output channel.
inline ImageBatch filters_of(const ConvolutionShape& shape) {
  return {shape.out_channels, shape.input.channels, shape.window.size, shape.window.size};
}

}  // namespace horo::ops
