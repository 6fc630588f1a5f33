#include "ops/data/crop_and_flip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using Values = std::vector<float>;

Values counted(const Shape& shape) {
  Values values(shape.count());
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// The crop whose corner is `down` and `right` of that of the image, with zeros outside the image.
Values expected_crop(const Shape& shape, int down, int right, bool is_flipped) {
  const Values whole = counted(shape);
  const int height = static_cast<int>(shape[1]);
  const int width = static_cast<int>(shape[2]);
  Values crop;
  for (int c = 0; c < static_cast<int>(shape[0]); ++c)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const int row = y + down;
        const int column = (is_flipped ? width - 1 - x : x) + right;
        const bool is_inside = row >= 0 && row < height && column >= 0 && column < width;
        crop.push_back(
            is_inside ? whole[static_cast<std::size_t>((c * height + row) * width + column)] : 0);
      }
  return crop;
}

Values augmented(const CropAndFlip& augmentation, const Shape& shape, std::uint64_t epoch,
                 std::uint64_t sample) {
  Values values = counted(shape);
  augmentation(values, epoch, sample);
  return values;
}

// Every outcome is one of the 2 * (2 padding + 1)^2 crops, and all occur about equally often.
TEST(CropAndFlip, CropsAllPositionsEquallyOften) {
  const Shape shape{2, 5, 3};
  const CropAndFlip augmentation(shape, {.padding = 1});
  std::map<Values, int> count;
  for (int down = -1; down <= 1; ++down)
    for (int right = -1; right <= 1; ++right)
      for (const bool is_flipped : {false, true})
        count[expected_crop(shape, down, right, is_flipped)] = 0;
  ASSERT_EQ(count.size(), 18u);
  for (std::uint64_t sample = 0; sample < 1800; ++sample)
    ++count[augmented(augmentation, shape, sample % 3, sample)];
  EXPECT_EQ(count.size(), 18u);
  for (const auto& [crop, times] : count) EXPECT_NEAR(times, 100, 50);
}

TEST(CropAndFlip, DependsOnlyOnSeedEpochAndSample) {
  const Shape shape{3, 8, 8};
  const CropAndFlip first(shape, {.seed = 4});
  const CropAndFlip again(shape, {.seed = 4});
  const CropAndFlip other(shape, {.seed = 5});
  int by_seed = 0, by_epoch = 0, by_sample = 0;
  for (std::uint64_t sample = 100; sample-- > 0;) {
    const Values values = augmented(first, shape, 7, sample);
    EXPECT_EQ(values, augmented(again, shape, 7, sample));
    by_seed += values == augmented(other, shape, 7, sample) ? 1 : 0;
    by_epoch += values == augmented(first, shape, 8, sample) ? 1 : 0;
    by_sample += values == augmented(first, shape, 7, sample + 1) ? 1 : 0;
  }
  for (const int alike : {by_seed, by_epoch, by_sample}) EXPECT_LT(alike, 10);
}

TEST(CropAndFlip, CropAndFlipCanBeTurnedOff) {
  const Shape shape{1, 4, 6};
  for (std::uint64_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(augmented(CropAndFlip(shape, {.padding = 0, .flips = false}), shape, 0, sample),
              counted(shape));
}

TEST(CropAndFlip, RefusesShapesThatAreNotImages) {
  EXPECT_EQ(message_of([] { CropAndFlip({784}); }),
            "CropAndFlip: samples have shape [784]; expected [channels, height, width]");
  Values values(5);
  EXPECT_EQ(message_of([&] {
              CropAndFlip({1, 2, 3})(values, 0, 0);
            }),
            "CropAndFlip: 5 values for an image of shape [1, 2, 3]");
}

// The pixels of the padding have the given values; everything else is as for floats.
TEST(CropAndFlip, ChangesPixelsAsFloats) {
  const Shape shape{2, 6, 5};
  const CropAndFlip crop(shape, {.padding = 3, .padding_pixels = {200, 201}});
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    Values floats = counted(shape);
    std::vector<std::uint8_t> pixels(floats.begin(), floats.end());
    crop(std::span<float>(floats), 3, sample);
    crop(std::span<std::uint8_t>(pixels), 3, sample);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      EXPECT_EQ(pixels[i], floats[i] == 0 ? 200 + i / 30 : static_cast<std::size_t>(floats[i]));
  }
  const CropAndFlip without(shape);
  std::vector<std::uint8_t> pixels(shape.count());
  EXPECT_THAT(message_of([&] { without(std::span<std::uint8_t>(pixels), 0, 0); }),
              testing::HasSubstr("0 padding_pixels for 2 channels"));
  EXPECT_THAT(padding_pixels(std::vector<PixelScale>{{0.5f, 1}, {1, 1}, {0, 1}}),
              testing::ElementsAre(128, 255, 0));
}

}  // namespace
}  // namespace horo::ops
