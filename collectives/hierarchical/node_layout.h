#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "horo/base/topology.h"

namespace horo::collectives {

/// The grouping of ranks for hierarchical collectives. Column c consists of the ranks with local
/// rank c, one on each node. There are as many columns as the smallest node has ranks. In an
/// allreduce, each rank of a column owns the same shard of the data of its node, and the ranks of
/// the column exchange this shard.
///
/// Example: node 0 has the ranks 0, 1 and 2, and node 1 has the ranks 3 and 4. The columns are {0,
/// 3} and {1, 4}. Rank 2 has no column.
class NodeLayout {
 public:
  explicit NodeLayout(const Topology& topology);

  int size() const { return size_; }
  int node() const { return node_; }
  int local_rank() const { return local_rank_; }
  int node_count() const { return static_cast<int>(ranks_.size()); }
  int local_size(int node) const {
    return static_cast<int>(ranks_[static_cast<std::size_t>(node)].size());
  }
  int rank_at(int node, int local_rank) const {
    return ranks_[static_cast<std::size_t>(node)][static_cast<std::size_t>(local_rank)];
  }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  /// The local rank of `rank` on the node of `rank`.
  int local_rank_of(int rank) const { return local_rank_of_[static_cast<std::size_t>(rank)]; }

  /// Whether the ranks of `node` are consecutive: r, r + 1, r + 2, ...
  bool is_consecutive(int node) const {
    return rank_at(node, local_size(node) - 1) - rank_at(node, 0) == local_size(node) - 1;
  }

  int columns() const { return columns_; }
  bool has_column() const { return local_rank_ < columns_; }
  /// The ranks of `column`, in the order of their nodes.
  std::vector<int> column_ranks(int column) const;

  /// Returns `sizes`, which has an entry for each column, extended with 0 for the ranks of this
  /// rank's node that have no column.
  std::vector<std::size_t> for_local_ranks(std::vector<std::size_t> sizes) const;

 private:
  int size_;
  int node_;
  int local_rank_;
  int columns_;
  std::vector<std::vector<int>> ranks_;  // by node, by local rank
  std::vector<int> node_of_;
  std::vector<int> local_rank_of_;
};

}  // namespace horo::collectives
