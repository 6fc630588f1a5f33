#include <gtest/gtest.h>

#include <vector>

#include "collectives/compression/low_rank.h"

namespace horo::collectives {
namespace {

TEST(RandomVector, IsUniformAndRepeats) {
  std::vector<float> values(10000);
  fill_with_random(values, 5);
  double sum = 0;
  double squares = 0;
  for (const float x : values) {
    ASSERT_GE(x, -1.0f);
    ASSERT_LT(x, 1.0f);
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.02);
  EXPECT_NEAR(squares / 10000, 1.0 / 3, 0.02);
  std::vector<float> again(10000);
  fill_with_random(again, 5);
  EXPECT_EQ(again, values);
  fill_with_random(again, 6);
  EXPECT_NE(again, values);
}

TEST(RandomVector, IsPortable) {
  // The first published outputs of splitmix64 for the seed 1234567; the upper 24 bits are used.
  std::vector<float> values(2);
  fill_with_random(values, 1234567);
  const auto expected = [](std::uint64_t bits) {
    return static_cast<float>(static_cast<std::int32_t>(bits >> 40) - (1 << 23)) / (1 << 23);
  };
  EXPECT_EQ(values[0], expected(6457827717110365317ull));
  EXPECT_EQ(values[1], expected(3203168211198807973ull));
}

}  // namespace
}  // namespace horo::collectives
