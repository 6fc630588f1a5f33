#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/data/dataset.h"
#include "ops/data/digit_renderer.h"

namespace horo::ops {

struct DigitsOptions {
  /// Another set of images for each seed.
  std::uint64_t seed = 1;
  /// The test images are drawn from other random numbers than the training images of the same seed.
  Split split = Split::kTrain;
  std::size_t size = 20000;
};

/// Digits that look handwritten, [1, 28, 28] of 10 classes, drawn by the program: a data set that
/// needs no file. Sample i is determined by (seed, split, i), label included. An image is drawn
/// when it is first asked for and then kept, in size * 784 bytes of memory.
class DigitsDataset : public Dataset {
 public:
  explicit DigitsDataset(const DigitsOptions& options = {});

  std::size_t size() const override { return options_.size; }
  Shape sample_shape() const override { return {1, kDigitSide, kDigitSide}; }
  std::size_t class_count() const override { return 10; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override;

 private:
  /// Of a place in the cache. A thread that finds kBeingDrawn draws for itself instead of waiting.
  enum class State : std::uint8_t { kEmpty, kBeingDrawn, kReady };

  DigitsOptions options_;
  mutable std::unique_ptr<DigitImage[]>
      images_;  // images_[i] may be read once states_[i] is kReady
  mutable std::vector<std::atomic<State>> states_;
};

}  // namespace horo::ops
