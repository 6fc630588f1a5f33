#include "ops/data/datasets/coloured_digits_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using Image = std::vector<float>;

Image image_of(const LabelledImages& dataset, std::size_t index) {
  Image image(dataset.sample_shape().count());
  dataset.copy_sample(index, image);
  return image;
}

TEST(ColouredDigitsDataset, IsDeterminedBySeedSplitAndIndex) {
  std::set<Image> different;
  for (const std::uint64_t seed : {5, 6})
    for (const auto split : {Split::kTrain, Split::kTest}) {
      const ColouredDigitsDataset first({.seed = seed, .split = split, .size = 40});
      const ColouredDigitsDataset again({.seed = seed, .split = split, .size = 30});
      for (std::size_t i = 30; i-- > 0;) {
        EXPECT_EQ(image_of(first, i), image_of(again, i));
        different.insert(image_of(first, i));
      }
    }
  EXPECT_EQ(different.size(), 120u);
}

TEST(ColouredDigitsDataset, HasAllClassesAndIsRoughlyNormalised) {
  const ColouredDigitsDataset dataset({.size = 1000});
  EXPECT_EQ(dataset.sample_shape(), (Shape{3, 32, 32}));
  std::array<int, 10> count{};
  double sum = 0;
  double squares = 0;
  Image image(dataset.sample_shape().count());
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    ++count.at(static_cast<std::size_t>(dataset.copy_sample(i, image)));
    for (const float value : image) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  for (const int samples : count) EXPECT_NEAR(samples, 100, 40);
  const auto values = static_cast<double>(dataset.size() * image.size());
  EXPECT_NEAR(sum / values, 0, 0.1);
  EXPECT_NEAR(squares / values, 0.75, 0.15);  // the variance of even numbers between -1.5 and 1.5
}

// In every image, some pixels differ clearly from the pixel in the corner.
TEST(ColouredDigitsDataset, DigitsCanBeSeen) {
  const ColouredDigitsDataset dataset({.size = 200});
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const Image image = image_of(dataset, i);
    float furthest = 0;
    for (std::size_t pixel = 0; pixel < 1024; ++pixel) {
      float squares = 0;
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const float step = image[channel * 1024 + pixel] - image[channel * 1024];
        squares += step * step;
      }
      furthest = std::max(furthest, squares);
    }
    EXPECT_GT(furthest, 0.36f) << i;
  }
}

TEST(ColouredDigitsDataset, ChecksTheArgumentsOfACopy) {
  const ColouredDigitsDataset dataset({.size = 2});
  Image image(3072);
  EXPECT_THAT(message_of([&] { dataset.copy_sample(2, image); }), testing::HasSubstr("sample 2"));
}

}  // namespace
}  // namespace horo::ops
