#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

struct CropAndFlipOptions {
  std::size_t padding = 4;  ///< pixels of zeros added on every side before the crop
  bool flips = true;        ///< set to false if left and right matter
  std::uint64_t seed = 1;
};

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

 private:
  std::size_t channels_, height_, width_;
  CropAndFlipOptions options_;
};

}  // namespace horo::ops
