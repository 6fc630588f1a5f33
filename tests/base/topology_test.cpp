#include "horo/base/topology.h"

#include <gtest/gtest.h>

namespace horo {
namespace {

TEST(Topology, NodesAreNumberedByLowestRank) {
  const std::vector<std::string> hosts = {"b", "a", "b", "a", "c"};
  const Topology t = make_topology(3, hosts, hosts);
  EXPECT_EQ(t.size, 5);
  EXPECT_EQ(t.node, 1);
  EXPECT_EQ(t.node_count, 3);
  EXPECT_EQ(t.local_rank, 1);
  EXPECT_EQ(t.local_size, 2);
  EXPECT_EQ(t.node_of, (std::vector<int>{0, 1, 0, 1, 2}));
  EXPECT_EQ(t.host_of, (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(t.ranks_of(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(t.smallest_node(), 1);
  EXPECT_EQ(t.describe(4), "rank 4 (host c)");
}

TEST(Topology, KeysSeparateNodesThatShareAHostName) {
  const Topology t = make_topology(2, {"x/0", "x/0", "x/1"}, {"x", "x", "x"});
  EXPECT_EQ(t.node_count, 2);
  EXPECT_EQ(t.local_size, 1);
  EXPECT_EQ(t.describe(2), "rank 2 (host x)");
}

}  // namespace
}  // namespace horo
