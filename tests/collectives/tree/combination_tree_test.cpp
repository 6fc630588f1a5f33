#include <gtest/gtest.h>

#include <set>

#include "collectives/tree/tree_exchange.h"

namespace horo::collectives {
namespace {

TEST(CombinationTree, CoreIsLargestPowerOfTwo) {
  const int cores[] = {1, 2, 2, 4, 4, 4, 4, 8, 8};
  for (int size = 1; size <= 9; ++size) {
    const CombinationTree tree(0, size);
    EXPECT_EQ(tree.core(), cores[size - 1]) << size;
    EXPECT_EQ(1 << tree.levels(), tree.core()) << size;
  }
}

TEST(CombinationTree, FoldsPairExtraRanksWithCoreRanks) {
  for (int size = 1; size <= 33; ++size) {
    int folds = 0;
    for (int rank = 0; rank < size; ++rank) {
      const CombinationTree tree(rank, size);
      EXPECT_EQ(tree.is_extra(), rank >= tree.core());
      if (!tree.has_fold()) continue;
      const CombinationTree other(tree.fold_peer(), size);
      EXPECT_TRUE(other.has_fold());
      EXPECT_EQ(other.fold_peer(), rank);
      EXPECT_NE(other.is_extra(), tree.is_extra());
      ++folds;
    }
    EXPECT_EQ(folds, 2 * (size - CombinationTree(0, size).core())) << size;
  }
}

TEST(CombinationTree, PeersAreMutualAndCoverCore) {
  for (int size = 1; size <= 33; ++size)
    for (int rank = 0; rank < CombinationTree(0, size).core(); ++rank) {
      const CombinationTree tree(rank, size);
      std::set<int> reached = {rank};
      for (int level = 0; level < tree.levels(); ++level) {
        const CombinationTree other(tree.peer(level), size);
        EXPECT_LT(tree.peer(level), tree.core());
        EXPECT_EQ(other.peer(level), rank);
        EXPECT_EQ(tree.is_lower(level), rank < tree.peer(level));
        EXPECT_NE(tree.is_lower(level), other.is_lower(level));
        EXPECT_EQ(tree.is_last(level), level + 1 == tree.levels());
        for (const int r : std::set<int>(reached)) reached.insert(r ^ (1 << level));
      }
      EXPECT_EQ(reached.size(), static_cast<std::size_t>(tree.core()));
    }
}

}  // namespace
}  // namespace horo::collectives
