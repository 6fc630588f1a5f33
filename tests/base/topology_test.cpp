#include "horo/base/topology.h"

#include <gtest/gtest.h>

#include "horo/base/error.h"

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

TEST(Topology, KeysSeparateNodesWithEqualHostNames) {
  const Topology t = make_topology(2, {"x/0", "x/0", "x/1"}, {"x", "x", "x"});
  EXPECT_EQ(t.node_count, 2);
  EXPECT_EQ(t.local_size, 1);
  EXPECT_EQ(t.describe(2), "rank 2 (host x)");
}

TEST(Topology, SubsetKeepsNodesAndRankNames) {
  const Topology job = make_topology(4, {"a", "a", "b", "b", "c"}, {"x", "x", "y", "y", "z"});
  const Topology set = job.subset({1, 3, 4});
  EXPECT_EQ(set.rank, 2);
  EXPECT_EQ(set.size, 3);
  EXPECT_EQ(set.node_count, 3);
  EXPECT_EQ(set.describe(1), "rank 3 (host y)");
  EXPECT_EQ(set.set_name(), "{1, 3, 4}");
  EXPECT_EQ(job.set_name(), "");
  const Topology inner = set.subset({0, 2});
  EXPECT_EQ(inner.rank, 1);
  EXPECT_EQ(inner.describe(0), "rank 1 (host x)");
  EXPECT_EQ(inner.job_rank(1), 4);
  EXPECT_EQ(inner.set_name(), "{1, 4}");
  EXPECT_THROW(job.subset({0, 1}), InvalidArgument);
}

TEST(Topology, SubsetOnOneNodeSharesNode) {
  const Topology set = make_topology(2, {"a", "a", "a", "b"}, {"x", "x", "x", "y"}).subset({0, 2});
  EXPECT_EQ(set.node_count, 1);
  EXPECT_EQ(set.local_rank, 1);
  EXPECT_EQ(set.local_size, 2);
}

}  // namespace
}  // namespace horo
