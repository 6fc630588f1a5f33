#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "ops/data/dataset.h"
#include "ops/data/random_stream.h"
#include "ops/nn/models.h"

namespace horo::ops {

/// Noisy bars: in a sample of class c, row c is bright. A network fits it within a few dozen steps.
class BarsDataset : public Dataset {
 public:
  explicit BarsDataset(std::size_t size, std::uint64_t seed = 1) : size_(size), seed_(seed) {}

  std::size_t size() const override { return size_; }
  Shape sample_shape() const override { return {1, kSide, kSide}; }
  std::size_t class_count() const override { return kSide; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    check_copy(index, values.size());
    RandomStream random(combine_keys(seed_, index));
    const auto label = random.below(kSide);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (i / kSide == label ? 1.0f : 0.0f) + 0.3f * random.normal();
    return static_cast<std::int32_t>(label);
  }

  static constexpr std::size_t kSide = 8;

 private:
  std::size_t size_;
  std::uint64_t seed_;
};

/// Sample 7 has a value that is not finite.
class PoisonedDataset : public BarsDataset {
 public:
  using BarsDataset::BarsDataset;
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    const std::int32_t label = BarsDataset::copy_sample(index, values);
    if (index == 7) values[3] = bad_value;
    return label;
  }
  float bad_value = std::numeric_limits<float>::infinity();
};

inline std::unique_ptr<Sequential> make_small_model(float dropout = 0.0f) {
  return make_cnn({.input = {1, BarsDataset::kSide, BarsDataset::kSide},
                   .channels = {4},
                   .kernel = 3,
                   .hidden = {16},
                   .classes = BarsDataset::kSide,
                   .dropout = dropout,
                   .seed = 3});
}

}  // namespace horo::ops
