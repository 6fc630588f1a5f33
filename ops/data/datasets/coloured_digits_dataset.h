#pragma once

#include <cstdint>

#include "ops/data/dataset.h"

namespace horo::ops {

/// The options of a ColouredDigitsDataset.
struct ColouredDigitsOptions {
  /// Each seed gives another set of images.
  std::uint64_t seed = 1;
  /// Training and test images of one seed use different random numbers.
  Split split = Split::kTrain;
  std::size_t size = 10000;  ///< images
};

/// Digits of render_digit() in one colour on a background of another: images [3, 32, 32] of 10
/// classes, which replace photographs if no files are available. Colours are independent of the
/// class. Sample i and its label depend only on (seed, split, i). An image is drawn each time it is
/// read.
class ColouredDigitsDataset : public LabelledImages {
 public:
  static constexpr std::size_t kSide = 32;  ///< pixels

  /// Draws no image yet.
  explicit ColouredDigitsDataset(const ColouredDigitsOptions& options = {}) : options_(options) {}

  std::size_t size() const override { return options_.size; }
  Shape sample_shape() const override { return {3, kSide, kSide}; }
  std::size_t class_count() const override { return 10; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override;

 private:
  ColouredDigitsOptions options_;
};

}  // namespace horo::ops
