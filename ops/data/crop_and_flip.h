#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horo/base/tensor_view.h"
#include "ops/tensor/image_crop.h"
#include "ops/tensor/pixel_scale.h"

namespace horo::ops {

/// The options of CropAndFlip.
struct CropAndFlipOptions {
  std::size_t padding = 4;  ///< pixels of zeros added on every side before the crop
  bool flips = true;        ///< set to false if left and right matter
  std::uint64_t seed = 1;   ///< of the crops and flips
  /// The pixels of the padding of uint8 images, one per channel: the mean of the data set, so that
  /// the padding is about 0 after the normalisation. See padding_pixels().
  std::vector<std::uint8_t> padding_pixels{};
};

/// The mean pixel of each channel, rounded.
std::vector<std::uint8_t> padding_pixels(std::span<const PixelScale> scales);

/// Random crops and flips, the usual augmentation of small photographs. An image is padded with
/// zeros (the mean of normalised images), cropped at a random position, and mirrored with
/// probability 1/2. The result depends only on the seed, the epoch and the index of the sample in
/// the data set. Thread-safe. Source: He, Zhang, Ren, Sun, "Deep residual learning" (2016), section
/// 4.2.
class CropAndFlip {
 public:
  /// `image`: [channels, height, width]; InvalidArgument otherwise.
  explicit CropAndFlip(const Shape& image, const CropAndFlipOptions& options = {});

  /// Changes one sample in place. `values` has as many elements as the image.
  void operator()(std::span<float> values, std::uint64_t epoch, std::uint64_t sample) const;
  /// The same for pixels. Throws InvalidArgument if padding_pixels does not have one per channel.
  void operator()(std::span<std::uint8_t> pixels, std::uint64_t epoch, std::uint64_t sample) const;
  /// What the functions above do with a sample. For BatchReaderOptions::crop.
  ImageCrop crop_of(std::uint64_t epoch, std::uint64_t sample) const;

 private:
  template <typename T, typename PaddingOf>
  void apply(std::span<T> values, std::uint64_t epoch, std::uint64_t sample,
             PaddingOf padding_of) const;

  std::size_t channels_, height_, width_;
  CropAndFlipOptions options_;
};

}  // namespace horo::ops
