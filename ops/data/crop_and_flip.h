#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

struct CropAndFlipOptions {
  std::size_t padding = 4;  ///< pixels added on every side before an image is cut out again
  bool flips = true;        ///< false where left and right mean something
  std::uint64_t seed = 1;
};

/// The common augmentation of small photographs: an image is padded with zeros (the mean, once it
/// is normalised), cut out again at a random place, and mirrored left to right every other time.
/// The choice depends on the seed, the epoch and the sample's index in the data set alone: not on
/// the rank, the number of ranks or the thread. Called from any thread. Source: He, Zhang, Ren,
/// Sun, "Deep residual learning" (2016), section 4.2.
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
