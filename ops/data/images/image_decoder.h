#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace horo::ops {

/// An image of 8 bits per value.
struct Image {
  std::size_t height = 0;            ///< pixels
  std::size_t width = 0;             ///< pixels
  std::size_t channels = 0;          ///< 1 (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;  ///< [height, width, channels]
};

/// Decodes a PNG or JPEG file, whichever its first bytes show, and converts it to `channels`, 1 or
/// 3. Transparent pixels are blended with black. A JPEG may be decoded at 1/2, 1/4 or 1/8 of its
/// size, if both sides stay at least `least_side`; 0: full size. Throws Error for another format,
/// for damaged or truncated data, and for a format that this build cannot decode. Thread-safe.
Image decode_image(std::span<const std::byte> file, std::size_t channels,
                   std::size_t least_side = 0);

/// Scales the image, with its proportions, until it just covers height x width, and cuts out the
/// centre. Each pixel is a weighted mean of the pixels around its place (triangle filter, as wide
/// as the scale), as in Pillow's BILINEAR.
Image scaled_to_cover(const Image& image, std::size_t height, std::size_t width);

/// decode_image() for a PNG file. Throws Error if horo was built without libpng.
Image decode_png(std::span<const std::byte> file, std::size_t channels);
/// decode_image() for a JPEG file. Throws Error if horo was built without libjpeg.
Image decode_jpeg(std::span<const std::byte> file, std::size_t channels, std::size_t least_side);

}  // namespace horo::ops
