#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/compression/top_k.h"

namespace horo::collectives {
namespace {

std::vector<std::uint32_t> select(const std::vector<float>& values, std::size_t count) {
  std::vector<std::uint32_t> indices(count);
  select_largest(values, indices);
  return indices;
}

std::vector<std::uint32_t> by_sorting(const std::vector<float>& values, std::size_t count) {
  std::vector<std::uint32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0u);
  std::ranges::stable_sort(indices, [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  indices.resize(count);
  std::ranges::sort(indices);
  return indices;
}

TEST(SelectLargest, MatchesSorting) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(random() % 300);
    const bool has_ties = round % 2 == 0;
    for (float& x : values)
      x = has_ties ? static_cast<float>(static_cast<int>(random() % 9) - 4)
                   : std::ldexp(static_cast<float>(random()) - 0x1p31f,
                                static_cast<int>(random() % 250) - 160);
    for (const std::size_t count : {values.size(), values.size() / 2, values.size() / 17})
      ASSERT_EQ(select(values, count), by_sorting(values, count));
  }
}

TEST(SelectLargest, LowerIndexWinsTie) {
  EXPECT_EQ(select({1, -2, 2, 0, -2, 2}, 3), (std::vector<std::uint32_t>{1, 2, 4}));
  EXPECT_EQ(select({0, -0.0f, 0}, 2), (std::vector<std::uint32_t>{0, 1}));
}

TEST(SelectLargest, SelectsNonFiniteValuesFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> values = {largest, -infinity, 1, -nan, 2};
  EXPECT_EQ(select(values, 1), (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(select(values, 2), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(select(values, 3), (std::vector<std::uint32_t>{0, 1, 3}));
}

}  // namespace
}  // namespace horo::collectives
