#include "collectives/hierarchical/node_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace horo::collectives {
namespace {

using testing::ElementsAre;

TEST(NodeLayout, SmallestNodeSetsNumberOfColumns) {
  const Topology topology = make_topology(2, {"a", "a", "a", "b", "b"}, {"a", "a", "a", "b", "b"});
  const NodeLayout layout(topology);
  EXPECT_EQ(layout.columns(), 2);
  EXPECT_THAT(layout.column_ranks(0), ElementsAre(0, 3));
  EXPECT_THAT(layout.column_ranks(1), ElementsAre(1, 4));
  EXPECT_FALSE(layout.has_column());
  EXPECT_THAT(layout.for_local_ranks({7, 8}), ElementsAre(7, 8, 0));
  EXPECT_EQ(layout.local_rank_of(4), 1);
}

TEST(NodeLayout, SupportsInterleavedRanks) {
  const Topology topology = make_topology(3, {"a", "b", "a", "b"}, {"a", "b", "a", "b"});
  const NodeLayout layout(topology);
  EXPECT_EQ(layout.node(), 1);
  EXPECT_EQ(layout.rank_at(1, 1), 3);
  EXPECT_THAT(layout.column_ranks(1), ElementsAre(2, 3));
  EXPECT_TRUE(layout.has_column());
}

}  // namespace
}  // namespace horo::collectives
