#pragma once

#include <cstddef>

#include "ops/backend/shapes.h"

namespace horo::ops::reference {

/// The index of the pixel (n, c, y, x) in a row-major batch of images.
inline std::size_t pixel(const ImageBatch& images, std::size_t n, std::size_t c, std::size_t y,
                         std::size_t x) {
  return ((n * images.channels + c) * images.height + y) * images.width + x;
}

/// Calls function(n, c, y, x) for every pixel, in memory order.
template <typename Function>
void for_each_pixel(const ImageBatch& images, Function function) {
  for (std::size_t n = 0; n < images.batch; ++n) {
    for (std::size_t c = 0; c < images.channels; ++c) {
      for (std::size_t y = 0; y < images.height; ++y) {
        for (std::size_t x = 0; x < images.width; ++x) function(n, c, y, x);
      }
    }
  }
}

/// Calls function(ky, kx, y, x) for every pixel (y, x) of an image under the window at position
/// (row, column). (ky, kx) is the position inside the window. Padding is skipped.
template <typename Function>
void for_each_under_window(const Window& window, const ImageBatch& images, std::size_t row,
                           std::size_t column, Function function) {
  for (std::size_t ky = 0; ky < window.size; ++ky) {
    for (std::size_t kx = 0; kx < window.size; ++kx) {
      const std::size_t y = row * window.stride + ky;  // in the padded image
      const std::size_t x = column * window.stride + kx;
      const bool is_inside = y >= window.padding && y < images.height + window.padding &&
                             x >= window.padding && x < images.width + window.padding;
      if (is_inside) function(ky, kx, y - window.padding, x - window.padding);
    }
  }
}

}  // namespace horo::ops::reference
