#include <numeric>

#include "ops/backend/cpu/elementwise.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {
namespace {

using Mask = std::vector<std::uint8_t>;

Mask draw(std::uint64_t key, std::vector<std::uint64_t> samples, std::size_t features,
          float probability) {
  Mask kept(samples.size() * features);
  cpu::draw_dropout_mask(key, samples, features, probability, kept);
  return kept;
}

TEST(DropoutKernel, RowDependsOnTheSampleAlone) {
  constexpr std::size_t kFeatures = 37;
  const Mask all = draw(11, {40, 7, 1ull << 40, 3}, kFeatures, 0.4f);
  const Mask reversed = draw(11, {3, 1ull << 40, 7, 40}, kFeatures, 0.4f);
  for (std::size_t row = 0; row < 4; ++row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * kFeatures);
    const auto mirrored = reversed.begin() + static_cast<std::ptrdiff_t>((3 - row) * kFeatures);
    EXPECT_TRUE(std::equal(begin, begin + kFeatures, mirrored)) << row;
  }
}

TEST(DropoutKernel, KeysAndSamplesDrawDifferently) {
  const Mask base = draw(1, {5}, 256, 0.5f);
  EXPECT_NE(base, draw(2, {5}, 256, 0.5f));
  EXPECT_NE(base, draw(1, {6}, 256, 0.5f));
}

TEST(DropoutKernel, KeepRateIsWithinBounds) {
  std::vector<std::uint64_t> samples(200);
  std::iota(samples.begin(), samples.end(), 1000);
  for (const float probability : {0.0f, 0.1f, 0.5f, 0.9f}) {
    const Mask kept = draw(99, samples, 500, probability);
    const double rate =
        std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
    // six standard deviations of 100,000 draws
    const double bound = 6 * std::sqrt(probability * (1 - probability) / 100000.0);
    EXPECT_NEAR(rate, 1 - probability, bound + 1e-12) << probability;
  }
}

TEST(DropoutKernel, ApplyScalesKeptValues) {
  std::vector<float> values{1.5f, -2.0f, 3.25f, 0.5f};
  cpu::apply_dropout(values, Mask{1, 0, 1, 0}, 2.0f);
  EXPECT_EQ(values, (std::vector<float>{3.0f, 0.0f, 6.5f, 0.0f}));
}

}  // namespace
}  // namespace horo::ops
