#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::ops {

/// Mean and standard deviation of a data set's pixels, as fractions of 255.
struct PixelScale {
  float mean = 0.0f;
  float deviation = 1.0f;
};

/// values[i] = (pixels[i] / 255 - mean) / deviation. Both have the same length.
inline void normalise_pixels(std::span<const std::uint8_t> pixels, const PixelScale& scale,
                             std::span<float> values) {
  const float factor = 1.0f / (255.0f * scale.deviation);
  const float offset = scale.mean / scale.deviation;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(pixels[i]) * factor - offset;
}

}  // namespace horo::ops
