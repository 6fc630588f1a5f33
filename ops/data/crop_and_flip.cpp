#include "ops/data/crop_and_flip.h"

#include <fmt/core.h>

#include <vector>

#include "horo/base/error.h"
#include "ops/data/random_stream.h"
#include "ops/tensor/source_pixel.h"

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
  for (const PixelScale& scale : scales) pixels.push_back(padding_pixel(scale));
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

// The stream depends only on the seed, the epoch and the sample. The result is therefore the same
// on any number of ranks and loader threads. All three numbers are drawn even if flips are off.
ImageCrop CropAndFlip::crop_of(std::uint64_t epoch, std::uint64_t sample) const {
  RandomStream random(combine_keys(combine_keys(options_.seed, epoch), sample));
  const auto offset = [&] {
    return static_cast<std::int32_t>(random.below(2 * options_.padding + 1)) -
           static_cast<std::int32_t>(options_.padding);
  };
  const std::int32_t down = offset(), right = offset();
  return {down, right, random.below(2) == 1 && options_.flips ? 1 : 0};
}

template <typename T, typename PaddingOf>
void CropAndFlip::apply(std::span<T> values, std::uint64_t epoch, std::uint64_t sample,
                        PaddingOf padding_of) const {
  HORO_CHECK(values.size() == channels_ * height_ * width_,
             fmt::format("CropAndFlip: {} values for an image of shape [{}, {}, {}]", values.size(),
                         channels_, height_, width_));
  const ImageCrop crop = crop_of(epoch, sample);
  const std::vector<T> whole(values.begin(), values.end());
  const std::size_t plane = height_ * width_;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const std::size_t c = at / plane;
    const std::size_t source = source_pixel(crop, height_, width_, at % plane);
    values[at] = source < plane ? whole[c * plane + source] : padding_of(c);
  }
}

}  // namespace horo::ops
