#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "ops/data/data_loader.h"
#include "ops/data/dataset.h"
#include "ops/data/random_stream.h"
#include "ops/nn/models/models.h"

namespace horo::ops {

/// Noisy bars: in a sample of class c, row c is bright. A network fits it within a few dozen steps.
class BarsDataset : public LabelledImages {
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

/// All samples of a data set, in order.
inline Batch whole_batch(const Dataset& dataset) {
  const GlobalSampler sampler(
      {.dataset_size = dataset.size(), .global_batch = dataset.size(), .is_shuffled = false}, 0, 1);
  return DataLoader(dataset, sampler, 0, 1, {.threads = 0}).next().value();
}

/// Sequences of 6 one-hot tokens of kTokens; each target is the token after it, which is twice the
/// token plus one, modulo kTokens. Every fifth target is padding.
class TokensDataset : public Dataset {
 public:
  explicit TokensDataset(std::size_t size) : size_(size) {}
  static constexpr std::size_t kTokens = 7, kLength = 6;
  static constexpr std::int32_t kPadding = -100;

  std::size_t size() const override { return size_; }
  SampleForm input() const override { return {{kLength * kTokens}}; }
  SampleForm target() const override { return {{kLength}, DataType::kInt32}; }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    for (std::size_t i = 0; i < kLength; ++i) {
      const std::size_t token = (index * 3 + i * i) % kTokens;
      for (std::size_t t = 0; t < kTokens; ++t)
        reinterpret_cast<float*>(input.data())[i * kTokens + t] = t == token ? 1.0f : 0.0f;
      reinterpret_cast<std::int32_t*>(target.data())[i] =
          (index + i) % 5 == 0 ? kPadding : static_cast<std::int32_t>((2 * token + 1) % kTokens);
    }
  }

 private:
  std::size_t size_;
};

/// Three inputs and two targets that are linear in them.
class LinesDataset : public Dataset {
 public:
  explicit LinesDataset(std::size_t size) : size_(size) {}
  std::size_t size() const override { return size_; }
  SampleForm input() const override { return {{3}}; }
  SampleForm target() const override { return {{2}}; }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    RandomStream random(combine_keys(3, index));
    auto* x = reinterpret_cast<float*>(input.data());
    auto* y = reinterpret_cast<float*>(target.data());
    for (std::size_t i = 0; i < 3; ++i) x[i] = random.normal();
    y[0] = 0.5f * x[0] - x[2];
    y[1] = x[1] + 0.25f;
  }

 private:
  std::size_t size_;
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
