#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "horo/coordinator/negotiation/control_network.h"

namespace horo::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<ControlTree> trees_of(const std::vector<std::string>& nodes) {
  std::vector<ControlTree> trees;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank)
    trees.emplace_back(make_topology(rank, nodes, nodes));
  return trees;
}

TEST(ControlTree, LeaderIsParentInsideNode) {
  const auto trees = trees_of({"a", "a", "a"});
  EXPECT_TRUE(trees[0].is_root());
  EXPECT_THAT(trees[0].children, ElementsAre(1, 2));
  EXPECT_THAT(trees[0].ranks_of, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(trees[2].parent, 0);
  EXPECT_TRUE(trees[2].is_parent_local);
  EXPECT_FALSE(trees[2].is_leader());
  EXPECT_THAT(trees[2].children, IsEmpty());
}

TEST(ControlTree, LeadersFormBinomialTree) {
  // Ranks are assigned to five nodes cyclically: the leaders are ranks 0 to 4.
  const auto trees = trees_of({"a", "b", "c", "d", "e", "a", "b", "c", "d", "e"});
  EXPECT_THAT(trees[0].children, ElementsAre(5, 1, 2, 4));
  EXPECT_EQ(trees[0].local_children, 1u);
  EXPECT_THAT(trees[0].ranks_of, ElementsAre(ElementsAre(0), ElementsAre(5), ElementsAre(1, 6),
                                             ElementsAre(2, 3, 7, 8), ElementsAre(4, 9)));
  EXPECT_EQ(trees[3].parent, 2);
  EXPECT_FALSE(trees[3].is_parent_local);
  EXPECT_TRUE(trees[3].is_leader());
  EXPECT_EQ(trees[8].parent, 3);
}

TEST(ControlTree, EveryRankIsInOneSubtreeNearRoot) {
  for (int nodes = 1; nodes <= 40; ++nodes) {
    std::vector<std::string> names;
    for (int rank = 0; rank < 2 * nodes; ++rank) names.push_back(std::to_string(rank % nodes));
    const auto trees = trees_of(names);
    std::multiset<int> all;
    for (const auto& ranks : trees[0].ranks_of) all.insert(ranks.begin(), ranks.end());
    EXPECT_EQ(all.size(), names.size());
    EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), names.size());
    const int bound = std::bit_width(static_cast<unsigned>(nodes - 1));
    for (int rank = 0; rank < 2 * nodes; ++rank) {
      const ControlTree& tree = trees[static_cast<std::size_t>(rank)];
      EXPECT_LE(tree.children.size() - tree.local_children, static_cast<std::size_t>(bound));
      int steps = 0;
      for (int at = rank; !trees[static_cast<std::size_t>(at)].is_root(); ++steps) {
        const int parent = trees[static_cast<std::size_t>(at)].parent;
        EXPECT_THAT(trees[static_cast<std::size_t>(parent)].children, ::testing::Contains(at));
        at = parent;
      }
      EXPECT_LE(steps, bound + 1);
    }
  }
}

}  // namespace
}  // namespace horo::coordinator
