#pragma once

#include <vector>

#include "horo/base/topology.h"

namespace horo::coordinator {

/// Who passes control messages to whom, as one rank sees it. Inside a node every rank has the
/// node's first rank, its leader, as parent. The leaders form a binomial tree over the nodes'
/// numbers with rank 0 as the root: the parent of node n is n without its lowest set bit, so that
/// every leader has at most log2(nodes) children and the root is at most log2(nodes) steps away.
struct ControlTree {
  explicit ControlTree(const Topology& topology);

  bool is_root() const { return parent < 0; }
  /// Of its node.
  bool is_leader() const { return is_root() || !is_parent_local; }

  int parent = -1;  ///< rank; the root has none
  bool is_parent_local = false;
  /// Ranks that pass their messages to this one: those of its node, then other nodes' leaders, each
  /// ascending.
  std::vector<int> children;
  std::size_t local_children = 0;
  /// ranks_of[0]: this rank alone; ranks_of[1 + c]: child c and everyone below it, ascending. All
  /// of them together are the subtree of this rank.
  std::vector<std::vector<int>> ranks_of;
};

/// The nodes that `node`, of `node_count`, is parent of. Ascending.
std::vector<int> child_nodes(int node, int node_count);
/// The nodes of `node`'s subtree are [node, subtree_end(node, node_count)).
int subtree_end(int node, int node_count);

}  // namespace horo::coordinator
