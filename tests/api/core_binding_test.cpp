#include "horo/runtime/core_binding.h"

#include <gtest/gtest.h>

namespace horo {
namespace {

TEST(CoreBinding, SharesAreEqualDisjointAndInOrder) {
  const std::vector<int> processors = {0, 1, 4, 5, 8, 9, 12};
  EXPECT_EQ(share_of(processors, 0, 3), (std::vector<int>{0, 1}));
  EXPECT_EQ(share_of(processors, 1, 3), (std::vector<int>{4, 5}));
  EXPECT_EQ(share_of(processors, 2, 3), (std::vector<int>{8, 9}));
  EXPECT_EQ(share_of(processors, 0, 1), processors);
}

TEST(CoreBinding, GivesNoShareIfRanksOutnumberProcessors) {
  EXPECT_TRUE(share_of({0, 1}, 1, 3).empty());
  EXPECT_TRUE(share_of({}, 0, 2).empty());
}

TEST(CoreBinding, OpenMpGetsShareUnlessMoreThreadsAreRequested) {
  EXPECT_EQ(plan_openmp(8, false, 8, 2), OpenMpPlan::kSetThreads);
  EXPECT_EQ(plan_openmp(8, true, 8, 2), OpenMpPlan::kDoNotBind);
  EXPECT_EQ(plan_openmp(4, false, 8, 2), OpenMpPlan::kDoNotBind) << "by omp_set_num_threads()";
  EXPECT_EQ(plan_openmp(2, true, 8, 2), OpenMpPlan::kLeave);
  EXPECT_EQ(plan_openmp(1, false, 8, 2), OpenMpPlan::kLeave);
  EXPECT_EQ(plan_openmp(8, false, 8, 8), OpenMpPlan::kLeave) << "one rank has all processors";
}

}  // namespace
}  // namespace horo
