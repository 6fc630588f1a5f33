#include "collectives/compression/power_sgd.h"

#include <gtest/gtest.h>

#include <limits>

namespace horo::collectives {
namespace {

TEST(PowerSgd, CompressesAboveMinimumRate) {
  const PowerSgd::Options options{.rank = 4, .min_compression_rate = 2};
  EXPECT_TRUE(PowerSgd::compresses(100, 100, options));  // 10000 values, factors of 800
  EXPECT_FALSE(PowerSgd::compresses(16, 16, options));   // 256, factors of 128: exactly the rate
  EXPECT_TRUE(PowerSgd::compresses(16, 17, options));    // 272 values, factors of 132
  EXPECT_FALSE(PowerSgd::compresses(1000000, 1, options));
  EXPECT_FALSE(PowerSgd::compresses(1, 1000000, options));
  EXPECT_FALSE(PowerSgd::compresses(2, 1000000, options));  // rank 2 of 2 rows: saves nothing
  EXPECT_FALSE(PowerSgd::compresses(0, 5, options));
  EXPECT_FALSE(PowerSgd::compresses(5, 0, options));
  EXPECT_FALSE(PowerSgd::compresses(
      100, 100, {.rank = std::numeric_limits<std::size_t>::max(), .min_compression_rate = 1}));
}

}  // namespace
}  // namespace horo::collectives
