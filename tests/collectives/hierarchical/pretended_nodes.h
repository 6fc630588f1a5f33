#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "collectives/shared_region.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {

/// One rank of a job on emulated nodes.
struct NodeRank {
  Transport& transport;
  Topology topology;
  std::unique_ptr<SharedMemoryCollectives> node;
  std::unique_ptr<PointToPoint> across;
};

/// Returns the topology of `rank`. `nodes` names the node of each rank, one letter each.
inline Topology topology_of(const std::string& nodes, int rank) {
  std::vector<std::string> keys;
  for (const char node : nodes) keys.emplace_back(1, node);
  return make_topology(rank, keys, keys);
}

/// Creates the resources of `rank`. Collective.
inline NodeRank make_node_rank(Transport& transport, const std::string& nodes, int rank) {
  const SharedMemoryCollectives::Options options{.segment_bytes = 4096, .direct_bytes = 64};
  NodeRank result{transport, topology_of(nodes, rank), nullptr, transport.make_point_to_point()};
  for (int n = 0; n < result.topology.node_count; ++n) {
    const std::vector<int> ranks = result.topology.ranks_of(n);
    const auto size = static_cast<int>(ranks.size());
    auto region = transport.make_node_region(SharedMemoryCollectives::bytes_needed(size, options));
    if (n != result.topology.node) continue;
    std::vector<std::string> names;
    for (const int r : ranks) names.push_back(result.topology.describe(r));
    result.node = std::make_unique<SharedMemoryCollectives>(
        std::move(region), result.topology.local_rank, std::move(names), options,
        transport.wait_policy());
  }
  return result;
}

/// Runs function(rank) on one thread per rank, with shared memory inside each node.
inline void run_on_nodes(const std::string& nodes, InProcessJob::Options options,
                         const std::function<void(NodeRank&)>& function) {
  options.ranks_per_node = 0;  // the transport sees a single node
  run_thread_ranks(static_cast<int>(nodes.size()), options, [&](Transport& transport, int rank) {
    NodeRank node_rank = make_node_rank(transport, nodes, rank);
    function(node_rank);
  });
}

/// Allocates `bytes_per_rank` for every rank of the job, mapped by the ranks of a node. Collective.
inline NodeBlock make_block(NodeRank& rank, std::size_t bytes_per_rank) {
  const auto size = static_cast<std::size_t>(rank.topology.size);
  return {rank.transport.make_node_region(size * bytes_per_rank), rank.topology.rank,
          bytes_per_rank};
}

}  // namespace horo::collectives::contract
