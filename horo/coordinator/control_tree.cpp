#include "horo/coordinator/control_tree.h"

#include <algorithm>

namespace horo::coordinator {
namespace {

constexpr int lowest_bit(int number) { return number & -number; }

}  // namespace

std::vector<int> child_nodes(int node, int node_count) {
  std::vector<int> children;
  for (int bit = 1; (node == 0 || bit < lowest_bit(node)) && node + bit < node_count; bit *= 2)
    children.push_back(node + bit);
  return children;
}

int subtree_end(int node, int node_count) {
  return node == 0 ? node_count : std::min(node + lowest_bit(node), node_count);
}

ControlTree::ControlTree(const Topology& topology) {
  ranks_of.push_back({topology.rank});
  if (topology.local_rank > 0) {
    parent = topology.ranks_of(topology.node).front();
    is_parent_local = true;
    return;
  }
  for (const int rank : topology.ranks_of(topology.node)) {
    if (rank == topology.rank) continue;
    children.push_back(rank);
    ranks_of.push_back({rank});
  }
  local_children = children.size();
  if (topology.node > 0)
    parent = topology.ranks_of(topology.node - lowest_bit(topology.node)).front();
  for (const int child : child_nodes(topology.node, topology.node_count)) {
    children.push_back(topology.ranks_of(child).front());
    std::vector<int> below;
    for (int rank = 0; rank < topology.size; ++rank)
      if (topology.node_of[rank] >= child &&
          topology.node_of[rank] < subtree_end(child, topology.node_count))
        below.push_back(rank);
    ranks_of.push_back(std::move(below));
  }
}

}  // namespace horo::coordinator
