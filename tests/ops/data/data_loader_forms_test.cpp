// The forms of samples that a DataLoader loads: tokens, and images as pixels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/backend/pixels.h"
#include "ops/data/crop_and_flip.h"
#include "ops/data/data_loader.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;

GlobalSampler sampler_for(const Dataset& dataset) {
  return GlobalSampler({.dataset_size = dataset.size(), .global_batch = 8, .seed = 2}, 0, 1);
}

/// Sample i is the tokens i, i + 1, i + 2, and its targets are the halves of these.
class TokenDataset : public Dataset {
 public:
  std::size_t size() const override { return 21; }
  SampleForm input() const override { return {{3}, DataType::kInt32}; }
  SampleForm target() const override { return {{3}, DataType::kFloat32}; }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    for (std::size_t i = 0; i < 3; ++i) {
      reinterpret_cast<std::int32_t*>(input.data())[i] = static_cast<std::int32_t>(index + i);
      reinterpret_cast<float*>(target.data())[i] = 0.5f * static_cast<float>(index + i);
    }
  }
};

TEST(DataLoader, LoadsInputsAndTargetsOfAnyForm) {
  const TokenDataset dataset;
  const auto sampler = sampler_for(dataset);
  DataLoader loader(dataset, sampler, 0, 2);
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->inputs.shape(), (Shape{8, 3}));
    ASSERT_EQ(batch->targets.shape(), (Shape{8, 3}));
    const Batch rows = rows_of(*batch, 5, 2);
    ASSERT_EQ(rows.inputs.shape(), (Shape{2, 3}));
    for (std::size_t i = 0; i < 24; ++i) {
      const std::int32_t token = static_cast<std::int32_t>(batch->sample_indices()[i / 3] + i % 3);
      EXPECT_EQ(batch->inputs.values<std::int32_t>()[i], token);
      EXPECT_EQ(batch->targets.values()[i], 0.5f * static_cast<float>(token));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(rows.inputs.values<std::int32_t>()[i],
                batch->inputs.values<std::int32_t>()[15 + i]);
      EXPECT_EQ(rows.targets.values()[i], batch->targets.values()[15 + i]);
      EXPECT_EQ(rows.sample_indices()[i / 3], batch->sample_indices()[5 + i / 3]);
    }
  }
}

/// Image i has the pixels i, i + 1, ...
class CountedPixels : public PixelImages {
 public:
  std::size_t size() const override { return 40; }
  Shape sample_shape() const override { return {2, 3, 2}; }
  std::size_t class_count() const override { return 40; }
  std::vector<PixelScale> pixel_scales() const override { return {{0.5f, 0.5f}, {0.25f, 2}}; }
  std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const override {
    check_copy(index, pixels.size());
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(index + i);
    return static_cast<std::int32_t>(index);
  }
};

TEST(DataLoader, LoadsPixelsThatNormaliseToTheFloats) {
  const CountedPixels dataset;
  const auto sampler = sampler_for(dataset);
  DataLoader as_floats(dataset, sampler, 0, 5);
  DataLoader as_pixels(dataset, sampler, 0, 5, {.threads = 2, .as_pixels = true});
  while (const auto batch = as_pixels.next()) {
    const auto expected = as_floats.next();
    ASSERT_EQ(batch->inputs.type(), DataType::kUInt8);
    ASSERT_TRUE(batch->pixel_scales);
    EXPECT_FALSE(expected->pixel_scales);
    const Tensor values = normalised(cpu_backend(), batch->inputs, *batch->pixel_scales);
    EXPECT_TRUE(std::ranges::equal(values.values(), expected->inputs.values()));
    EXPECT_TRUE(std::ranges::equal(batch->targets.values<std::int32_t>(),
                                   expected->targets.values<std::int32_t>()));
  }
}

TEST(DataLoader, AugmentsPixels) {
  const CountedPixels dataset;
  const auto sampler = sampler_for(dataset);
  const auto augment = [](auto values, std::uint64_t epoch, std::uint64_t sample) {
    values[0] = static_cast<typename decltype(values)::value_type>(100 + 2 * sample + epoch);
  };
  DataLoader loader(dataset, sampler, 0, 9,
                    {.augmentation = augment, .as_pixels = true, .pixel_augmentation = augment});
  while (const auto batch = loader.next())
    for (std::size_t row = 0; row < batch->rows(); ++row)
      EXPECT_EQ(batch->inputs.values<std::uint8_t>()[12 * row],
                100 + 2 * batch->sample_indices()[row] + batch->where.epoch);
  EXPECT_THAT(message_of([&] {
                DataLoader(dataset, sampler, 0, 9, {.augmentation = augment, .as_pixels = true});
              }),
              HasSubstr("pixel_augmentation is not set"));
}

// Images that the step crops have the values of images that the workers crop.
TEST(DataLoader, LoadsCropsThatTheStepApplies) {
  const CountedPixels dataset;
  const auto sampler = sampler_for(dataset);
  const CropAndFlip crop(dataset.sample_shape(),
                         {.padding = 2, .padding_pixels = padding_pixels(dataset.pixel_scales())});
  DataLoader by_workers(dataset, sampler, 0, 9, {.as_pixels = true, .pixel_augmentation = crop});
  DataLoader by_step(dataset, sampler, 0, 9,
                     {.threads = 2,
                      .augmentation = crop,
                      .as_pixels = true,
                      .pixel_augmentation = crop,
                      .crop = [&](auto... of) { return crop.crop_of(of...); }});
  std::size_t changed = 0;
  while (const auto batch = by_step.next()) {
    const auto expected = by_workers.next();
    EXPECT_FALSE(expected->crops);
    const Tensor whole = normalised(cpu_backend(), batch->inputs, *batch->pixel_scales);
    const Tensor cropped =
        normalised(cpu_backend(), batch->inputs, *batch->pixel_scales, &batch->crops.value());
    const Tensor wanted = normalised(cpu_backend(), expected->inputs, *expected->pixel_scales);
    EXPECT_TRUE(std::ranges::equal(cropped.values(), wanted.values()));
    changed += std::ranges::equal(whole.values(), wanted.values()) ? 0 : 1;
  }
  EXPECT_GT(changed, 4u);
}

TEST(DataLoader, RejectsAugmentationOfTokens) {
  const TokenDataset dataset;
  const auto sampler = sampler_for(dataset);
  EXPECT_THAT(message_of([&] {
                DataLoader(dataset, sampler, 0, 1, {.augmentation = [](auto, auto, auto) {}});
              }),
              HasSubstr("those of the data set are int32"));
}
}  // namespace
}  // namespace horo::ops
