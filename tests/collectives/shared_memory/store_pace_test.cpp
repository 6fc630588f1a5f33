#include <gtest/gtest.h>

#include "collectives/shared_memory/store_chooser.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kBytes = 2 << 20;

TEST(StorePace, TwoSlowSamplesInARowAreADrop) {
  StorePace pace;
  EXPECT_FALSE(pace.has_dropped(kBytes, 1.0));
  EXPECT_FALSE(pace.has_dropped(kBytes, 4.0));
  EXPECT_TRUE(pace.has_dropped(kBytes, 4.0));
  EXPECT_TRUE(pace.has_dropped(kBytes, 3.5));
  EXPECT_FALSE(pace.has_dropped(kBytes, 2.0));
}

TEST(StorePace, OneSlowSampleIsNoDrop) {
  StorePace pace;
  EXPECT_FALSE(pace.has_dropped(kBytes, 1.0));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(pace.has_dropped(kBytes, 9.0));
    EXPECT_FALSE(pace.has_dropped(kBytes, 2.5));
  }
}

TEST(StorePace, SamplesOfOtherCollectivesDoNotCount) {
  StorePace pace;
  EXPECT_FALSE(pace.has_dropped(kBytes, 1.0));
  EXPECT_FALSE(pace.has_dropped(kBytes, 9.0));
  pace.begin();
  EXPECT_FALSE(pace.has_dropped(kBytes, 9.0));
  EXPECT_TRUE(pace.has_dropped(kBytes, 9.0));
}

}  // namespace
}  // namespace horo::collectives
