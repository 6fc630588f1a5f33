#include "collectives/hierarchical/node_layout.h"

#include <utility>

namespace horo::collectives {

NodeLayout::NodeLayout(const Topology& topology)
    : size_(topology.size),
      node_(topology.node),
      local_rank_(topology.local_rank),
      columns_(topology.smallest_node()),
      node_of_(topology.node_of),
      local_rank_of_(static_cast<std::size_t>(topology.size)) {
  for (int n = 0; n < topology.node_count; ++n) {
    ranks_.push_back(topology.ranks_of(n));
    for (std::size_t l = 0; l < ranks_.back().size(); ++l)
      local_rank_of_[static_cast<std::size_t>(ranks_.back()[l])] = static_cast<int>(l);
  }
}

std::vector<int> NodeLayout::column_ranks(int column) const {
  std::vector<int> ranks;
  for (int n = 0; n < node_count(); ++n) ranks.push_back(rank_at(n, column));
  return ranks;
}

std::vector<std::size_t> NodeLayout::for_local_ranks(std::vector<std::size_t> sizes) const {
  sizes.resize(static_cast<std::size_t>(local_size(node_)), 0);
  return sizes;
}

}  // namespace horo::collectives
