#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace horo::ops {

/// Mean and standard deviation of a data set's pixels, as fractions of 255.
struct PixelScale {
  float mean = 0.0f;       ///< of the pixels of a channel
  float deviation = 1.0f;  ///< of the pixels of a channel

  /// A pixel has the value pixel * factor() - offset().
  float factor() const { return 1.0f / (255.0f * deviation); }
  /// See factor().
  float offset() const { return mean / deviation; }
};

/// The pixel whose value is nearest to 0: the mean, rounded.
inline std::uint8_t padding_pixel(const PixelScale& scale) {
  return static_cast<std::uint8_t>(std::clamp(std::lround(255 * scale.mean), 0L, 255L));
}

/// values[i] = (pixels[i] / 255 - mean) / deviation. Both have the same length.
inline void normalise_pixels(std::span<const std::uint8_t> pixels, const PixelScale& scale,
                             std::span<float> values) {
  const float factor = scale.factor(), offset = scale.offset();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(pixels[i]) * factor - offset;
}

}  // namespace horo::ops
