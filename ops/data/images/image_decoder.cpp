#include "ops/data/images/image_decoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

constexpr std::array<unsigned char, 4> kPng{0x89, 'P', 'N', 'G'};
constexpr std::array<unsigned char, 3> kJpeg{0xff, 0xd8, 0xff};

template <std::size_t N>
bool starts_with(std::span<const std::byte> file, const std::array<unsigned char, N>& magic) {
  return file.size() >= N &&
         std::equal(magic.begin(), magic.end(), file.begin(),
                    [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

/// The source pixels of an output pixel along one axis, and their weights, whose sum is 1.
struct Taps {
  std::size_t first = 0;
  std::vector<float> weights;
};

// Output pixel i is centred at (i + 0.5) * scale + origin in the source.
std::vector<Taps> taps_of(std::size_t source, double scale, double origin, std::size_t outputs) {
  const double support = std::max(scale, 1.0);
  std::vector<Taps> result(outputs);
  for (std::size_t i = 0; i < outputs; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale + origin;
    const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(centre - support)));
    const auto end = std::min(source, static_cast<std::size_t>(std::ceil(centre + support)));
    Taps& taps = result[i];
    taps.first = std::min(first, source - 1);
    double sum = 0;
    for (std::size_t x = taps.first; x < std::max(end, taps.first + 1); ++x) {
      const double distance = std::abs(static_cast<double>(x) + 0.5 - centre) / support;
      taps.weights.push_back(static_cast<float>(std::max(0.0, 1 - distance)));
      sum += static_cast<double>(taps.weights.back());
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return result;
}

}  // namespace

Image decode_image(std::span<const std::byte> file, std::size_t channels, std::size_t least_side) {
  HORO_CHECK(channels == 1 || channels == 3,
             fmt::format("images are decoded to 1 or 3 channels, not to {}", channels));
  if (starts_with(file, kPng)) return decode_png(file, channels);
  if (starts_with(file, kJpeg)) return decode_jpeg(file, channels, least_side);
  throw Error("is neither a PNG nor a JPEG file; convert it to one of them");
}

Image scaled_to_cover(const Image& image, std::size_t height, std::size_t width) {
  if (image.height == height && image.width == width) return image;
  const auto size = [](std::size_t pixels) { return static_cast<double>(pixels); };
  const double scale = std::min(size(image.height) / size(height), size(image.width) / size(width));
  const auto rows =
      taps_of(image.height, scale, (size(image.height) - scale * size(height)) / 2, height);
  const auto columns =
      taps_of(image.width, scale, (size(image.width) - scale * size(width)) / 2, width);
  const std::size_t channels = image.channels;
  // The rows are combined first, because they are contiguous.
  std::vector<float> line(image.width * channels);
  Image result{height, width, channels, std::vector<std::uint8_t>(height * width * channels)};
  std::uint8_t* out = result.pixels.data();
  for (const Taps& row : rows) {
    std::ranges::fill(line, 0.0f);
    for (std::size_t k = 0; k < row.weights.size(); ++k) {
      const std::uint8_t* const source = image.pixels.data() + (row.first + k) * line.size();
      for (std::size_t i = 0; i < line.size(); ++i)
        line[i] += row.weights[k] * static_cast<float>(source[i]);
    }
    for (const Taps& column : columns)
      for (std::size_t c = 0; c < channels; ++c) {
        float sum = 0.5f;
        for (std::size_t k = 0; k < column.weights.size(); ++k)
          sum += column.weights[k] * line[(column.first + k) * channels + c];
        *out++ = static_cast<std::uint8_t>(std::clamp(sum, 0.0f, 255.0f));
      }
  }
  return result;
}

}  // namespace horo::ops
