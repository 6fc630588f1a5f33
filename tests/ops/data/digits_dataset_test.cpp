#include "ops/data/datasets/digits_dataset.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>

#include "horo/base/error.h"
#include "ops/data/datasets/digit_strokes.h"

namespace horo::ops {
namespace {

constexpr std::size_t kPixels = kDigitSide * kDigitSide;
using DigitImage = std::array<float, kPixels>;

struct Sample {
  DigitImage image;
  std::int32_t label;
};

Sample sample_of(const LabelledImages& dataset, std::size_t index) {
  Sample sample{};
  sample.label = dataset.copy_sample(index, sample.image);
  return sample;
}

double squared_distance(const DigitImage& a, const DigitImage& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kPixels; ++i)
    sum += static_cast<double>(a[i] - b[i]) * static_cast<double>(a[i] - b[i]);
  return sum;
}

TEST(DigitsDataset, IsDeterminedBySeedSplitAndIndex) {
  const DigitsDataset first({.seed = 5, .size = 300});
  const DigitsDataset again({.seed = 5, .size = 200});
  for (const std::size_t index : {199, 0, 77, 0}) {
    EXPECT_EQ(sample_of(first, index).image, sample_of(again, index).image);
    EXPECT_EQ(sample_of(first, index).label, sample_of(again, index).label);
  }
  std::set<DigitImage> different;
  for (const std::uint64_t seed : {5, 6})
    for (const auto split : {Split::kTrain, Split::kTest}) {
      const DigitsDataset dataset({.seed = seed, .split = split, .size = 50});
      for (std::size_t i = 0; i < 50; ++i) different.insert(sample_of(dataset, i).image);
    }
  EXPECT_EQ(different.size(), 200u);
}

TEST(DigitsDataset, HasBalancedClasses) {
  const DigitsDataset dataset({.size = 5000});
  std::array<int, 10> count{};
  for (std::size_t i = 0; i < dataset.size(); ++i)
    ++count.at(static_cast<std::size_t>(sample_of(dataset, i).label));
  for (const int samples : count) EXPECT_NEAR(samples, 500, 100);
}

TEST(DigitsDataset, IsNormalised) {
  const DigitsDataset dataset({.size = 2000});
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    for (const float value : sample_of(dataset, i).image) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  const double count = static_cast<double>(dataset.size() * kPixels);
  EXPECT_NEAR(sum / count, 0.0, 0.05);
  EXPECT_NEAR(squares / count, 1.0, 0.05);
}

// The accuracy would be 10 % for equal classes, and nearly 100 % for trivial ones.
TEST(DigitsDataset, ClassesDifferButNotTrivially) {
  const DigitsDataset train({.split = Split::kTrain, .size = 3000});
  const DigitsDataset test({.split = Split::kTest, .size = 1000});
  std::array<DigitImage, 10> centroids{};
  std::array<float, 10> count{};
  for (std::size_t i = 0; i < train.size(); ++i) {
    const Sample sample = sample_of(train, i);
    const auto label = static_cast<std::size_t>(sample.label);
    ++count[label];
    for (std::size_t k = 0; k < kPixels; ++k) centroids[label][k] += sample.image[k];
  }
  for (std::size_t label = 0; label < 10; ++label)
    for (float& value : centroids[label]) value /= count[label];
  int right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const Sample sample = sample_of(test, i);
    std::size_t nearest = 0;
    for (std::size_t label = 1; label < 10; ++label)
      if (squared_distance(sample.image, centroids[label]) <
          squared_distance(sample.image, centroids[nearest]))
        nearest = label;
    right += nearest == static_cast<std::size_t>(sample.label) ? 1 : 0;
  }
  EXPECT_GT(right, 400);
  EXPECT_LT(right, 970);
}

TEST(DigitsDataset, GivesThreadsTheSameSamples) {
  const DigitsDataset dataset({.size = 60});
  const DigitsDataset reference({.size = 60});
  std::vector<std::jthread> threads;
  std::array<int, 4> wrong{};
  for (auto& mistakes : wrong)
    threads.emplace_back([&] {
      DigitImage image;
      for (std::size_t i = 0; i < dataset.size(); ++i) {
        dataset.copy_sample(i, image);
        mistakes += image == sample_of(reference, i).image ? 0 : 1;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

TEST(DigitStrokes, StayInTheUnitBox) {
  for (int digit = 0; digit < 10; ++digit) {
    ASSERT_FALSE(styles_of_digit(digit).empty());
    for (const auto& style : styles_of_digit(digit)) {
      for (const auto& stroke : style) {
        const auto path = trace_stroke(stroke);
        EXPECT_GE(path.size(), stroke.points.size());
        for (const auto& point : path) {
          EXPECT_GT(std::min(point.x, point.y), -0.1f) << digit;
          EXPECT_LT(std::max(point.x, point.y), 1.1f) << digit;
        }
      }
    }
  }
  EXPECT_THROW(styles_of_digit(10), InvalidArgument);
}

TEST(DigitStrokes, CurvePassesThroughItsPoints) {
  const Stroke stroke{Stroke::Kind::kCurve, {{0.0f, 0.0f}, {0.5f, 1.0f}, {1.0f, 0.0f}}};
  const auto path = trace_stroke(stroke);
  EXPECT_FLOAT_EQ(path.front().x, 0.0f);
  EXPECT_FLOAT_EQ(path[path.size() / 2].y, 1.0f);
  EXPECT_FLOAT_EQ(path.back().x, 1.0f);
}

}  // namespace
}  // namespace horo::ops
