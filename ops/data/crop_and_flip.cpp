#include "ops/data/crop_and_flip.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "horo/base/error.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

CropAndFlip::CropAndFlip(const Shape& image, const CropAndFlipOptions& options)
    : options_(options) {
  HORO_CHECK(image.rank() == 3,
             fmt::format("CropAndFlip: samples have shape {}; expected [channels, height, width]",
                         image.to_string()));
  channels_ = image[0];
  height_ = image[1];
  width_ = image[2];
}

std::vector<std::uint8_t> padding_pixels(std::span<const PixelScale> scales) {
  std::vector<std::uint8_t> pixels;
  for (const PixelScale& scale : scales)
    pixels.push_back(
        static_cast<std::uint8_t>(std::clamp(std::lround(255 * scale.mean), 0L, 255L)));
  return pixels;
}

void CropAndFlip::operator()(std::span<float> values, std::uint64_t epoch,
                             std::uint64_t sample) const {
  apply(values, epoch, sample, [](std::size_t) { return 0.0f; });
}

void CropAndFlip::operator()(std::span<std::uint8_t> pixels, std::uint64_t epoch,
                             std::uint64_t sample) const {
  HORO_CHECK(options_.padding_pixels.size() == channels_,
             fmt::format("CropAndFlip: {} padding_pixels for {} channels",
                         options_.padding_pixels.size(), channels_));
  apply(pixels, epoch, sample, [&](std::size_t c) { return options_.padding_pixels[c]; });
}

template <typename T, typename PaddingOf>
void CropAndFlip::apply(std::span<T> values, std::uint64_t epoch, std::uint64_t sample,
                        PaddingOf padding_of) const {
  HORO_CHECK(values.size() == channels_ * height_ * width_,
             fmt::format("CropAndFlip: {} values for an image of shape [{}, {}, {}]", values.size(),
                         channels_, height_, width_));
  // The stream depends only on the seed, the epoch and the sample. The result is therefore the same
  // on any number of ranks and loader threads. All three numbers are drawn even if flips are off.
  RandomStream random(combine_keys(combine_keys(options_.seed, epoch), sample));
  const std::size_t top = random.below(2 * options_.padding + 1);
  const std::size_t left = random.below(2 * options_.padding + 1);
  const bool is_flipped = random.below(2) == 1 && options_.flips;
  const std::vector<T> whole(values.begin(), values.end());
  T* out = values.data();
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t y = 0; y < height_; ++y) {
      for (std::size_t x = 0; x < width_; ++x) {
        // Unsigned coordinates in the original image. In the padding above and left of the image
        // they wrap to huge values.
        const std::size_t row = top + y - options_.padding;
        const std::size_t column = left + (is_flipped ? width_ - 1 - x : x) - options_.padding;
        const bool is_inside = row < height_ && column < width_;
        *out++ = is_inside ? whole[(c * height_ + row) * width_ + column] : padding_of(c);
      }
    }
  }
}

}  // namespace horo::ops
