#pragma once

#include <cstdint>

#include "ops/data/dataset.h"

namespace horo::ops {

struct ColouredDigitsOptions {
  /// Another set of images for each seed.
  std::uint64_t seed = 1;
  /// The test images are drawn from other random numbers than the training images of the same seed.
  Split split = Split::kTrain;
  std::size_t size = 10000;
};

/// The digits of render_digit() in one colour on a ground of another: images [3, 32, 32] of 10
/// classes, in the place of photographs where no file is at hand. Colour says nothing about the
/// class. Sample i is determined by (seed, split, i), label included, and drawn each time it is
/// asked for.
class ColouredDigitsDataset : public Dataset {
 public:
  static constexpr std::size_t kSide = 32;

  explicit ColouredDigitsDataset(const ColouredDigitsOptions& options = {}) : options_(options) {}

  std::size_t size() const override { return options_.size; }
  Shape sample_shape() const override { return {3, kSide, kSide}; }
  std::size_t class_count() const override { return 10; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override;

 private:
  ColouredDigitsOptions options_;
};

}  // namespace horo::ops
