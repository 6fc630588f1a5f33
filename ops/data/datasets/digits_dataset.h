#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/data/dataset.h"
#include "ops/data/datasets/digit_renderer.h"

namespace horo::ops {

/// The options of a DigitsDataset.
struct DigitsOptions {
  /// Each seed gives another set of images.
  std::uint64_t seed = 1;
  /// Training and test images of one seed use different random numbers.
  Split split = Split::kTrain;
  std::size_t size = 20000;  ///< images
};

/// Synthetic handwritten digits, [1, 28, 28] of 10 classes: a data set that needs no files. Sample
/// i and its label depend only on (seed, split, i). An image is drawn when it is first read and
/// then cached; the cache takes size * 784 bytes.
class DigitsDataset : public PixelImages {
 public:
  /// Draws no image yet.
  explicit DigitsDataset(const DigitsOptions& options = {});

  std::size_t size() const override { return options_.size; }
  Shape sample_shape() const override { return {1, kDigitSide, kDigitSide}; }
  std::size_t class_count() const override { return 10; }
  std::vector<PixelScale> pixel_scales() const override;
  std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const override;

 private:
  /// State of a cache entry. A thread that finds kBeingDrawn draws its own copy instead of waiting.
  enum class State : std::uint8_t { kEmpty, kBeingDrawn, kReady };

  DigitsOptions options_;
  mutable std::unique_ptr<DigitImage[]>
      images_;  // images_[i] may be read once states_[i] is kReady
  mutable std::vector<std::atomic<State>> states_;
};

}  // namespace horo::ops
