#include "horo/placement.h"

#include <gtest/gtest.h>

namespace horo {
namespace {

TEST(Placement, SharesAreEqualDisjointAndInOrder) {
  const std::vector<int> processors = {0, 1, 4, 5, 8, 9, 12};
  EXPECT_EQ(share_of(processors, 0, 3), (std::vector<int>{0, 1}));
  EXPECT_EQ(share_of(processors, 1, 3), (std::vector<int>{4, 5}));
  EXPECT_EQ(share_of(processors, 2, 3), (std::vector<int>{8, 9}));
  EXPECT_EQ(share_of(processors, 0, 1), processors);
}

TEST(Placement, MoreRanksThanProcessorsGetNoShare) {
  EXPECT_TRUE(share_of({0, 1}, 1, 3).empty());
  EXPECT_TRUE(share_of({}, 0, 2).empty());
}

}  // namespace
}  // namespace horo
