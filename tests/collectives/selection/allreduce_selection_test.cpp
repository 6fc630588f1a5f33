#include "collectives/selection/allreduce_selection.h"

#include <gtest/gtest.h>

namespace horo::collectives {
namespace {

using enum MessageAllreduce;

// Integers, so that the formulas can be checked by hand.
constexpr LinkCost kUnit{1000, 10, 1};

TEST(AllreduceCost, MatchesFormulas) {
  EXPECT_DOUBLE_EQ(predicted_seconds(kExchange, 8, 4, kUnit), 3 * (1000 + 80 + 8));
  EXPECT_DOUBLE_EQ(predicted_seconds(kDoubling, 8, 4, kUnit), 2 * (1000 + 80 + 8));
  EXPECT_DOUBLE_EQ(predicted_seconds(kHalving, 8, 4, kUnit), 4 * 1000 + 2 * 60 + 6);
  EXPECT_DOUBLE_EQ(predicted_seconds(kRing, 8, 4, kUnit), 6 * 1000 + 2 * 60);
  EXPECT_DOUBLE_EQ(predicted_seconds(kRing, 8, 4, kUnit, 0.5), 6 * 1000 + 60);
  // Rank 4 folds: it sends and receives N bytes, which are combined once.
  constexpr double kFold = 2 * (1000 + 80) + 8;
  EXPECT_DOUBLE_EQ(predicted_seconds(kDoubling, 8, 5, kUnit), 2 * (1000 + 80 + 8) + kFold);
  EXPECT_DOUBLE_EQ(predicted_seconds(kHalving, 8, 5, kUnit), 4 * 1000 + 2 * 60 + 6 + kFold);
}

TEST(AllreduceCost, IsZeroForOneRank) {
  for (const auto allreduce : {kExchange, kDoubling, kHalving, kRing})
    EXPECT_EQ(predicted_seconds(allreduce, 1 << 20, 1, kUnit), 0);
}

TEST(AllreduceSelection, PicksFastestTree) {
  AllreduceSelection selection;
  selection.ring_boundary = {1e9, 0, 0};  // never the ring
  selection.link = {1e-5, 1e-9, 1e-10};
  EXPECT_EQ(choose_allreduce(selection, 4, 2), kExchange);
  EXPECT_EQ(choose_allreduce(selection, 4, 3), kExchange);
  EXPECT_EQ(choose_allreduce(selection, 4, 4), kDoubling);
  EXPECT_EQ(choose_allreduce(selection, 4, 8), kDoubling);
  EXPECT_EQ(choose_allreduce(selection, 1 << 20, 8), kHalving);
  EXPECT_EQ(choose_allreduce(selection, 4, 64), kDoubling);
}

TEST(AllreduceSelection, MeasurementsDoNotMoveRingBoundary) {
  for (const LinkCost measured : {LinkCost{1e-3, 1e-12, 0}, LinkCost{1e-9, 1e-6, 1e-6}})
    for (int ranks = 2; ranks <= 40; ++ranks)
      for (std::size_t bytes = 1; bytes < std::size_t{1} << 24; bytes = bytes * 3 + 1) {
        AllreduceSelection selection;
        const bool is_ring = choose_allreduce(selection, bytes, ranks) == kRing;
        selection.link = measured;
        EXPECT_EQ(choose_allreduce(selection, bytes, ranks) == kRing, is_ring) << bytes;
      }
}

TEST(AllreduceSelection, RingStartsAtOneSize) {
  for (int ranks = 2; ranks <= 40; ++ranks)
    for (const double wire : {1.0, 0.5}) {
      bool was_ring = false;
      for (std::size_t bytes = 1; bytes < std::size_t{1} << 24; bytes += bytes / 16 + 1) {
        const bool is_ring = choose_allreduce({}, bytes, ranks, wire) == kRing;
        EXPECT_TRUE(is_ring || !was_ring) << ranks << " ranks, " << bytes << " bytes";
        was_ring = is_ring;
      }
      EXPECT_TRUE(was_ring) << ranks;
    }
}

TEST(AllreduceSelection, SettingOverrides) {
  for (const auto setting : {kExchange, kDoubling, kHalving, kRing})
    for (const std::size_t bytes : {4ul, 1ul << 26})
      EXPECT_EQ(choose_allreduce({.setting = setting}, bytes, 7), setting);
}

TEST(AllreduceSelection, LeadersReduceSmallBuffers) {
  EXPECT_TRUE(should_use_leaders({}, 4, 2, 2));
  EXPECT_TRUE(should_use_leaders({}, 4096, 4, 8));
  EXPECT_FALSE(should_use_leaders({}, 4, 2, 1));                  // one column has no shards
  EXPECT_FALSE(should_use_leaders({}, 1 << 26, 2, 2));            // uses the ring
  EXPECT_FALSE(should_use_leaders({.setting = kRing}, 4, 2, 2));  // the ring gives other bits
  EXPECT_FALSE(should_use_leaders({.link = {1e-9, 0, 1e-6}}, 100000, 2, 2));  // gamma dominates
}

}  // namespace
}  // namespace horo::collectives
