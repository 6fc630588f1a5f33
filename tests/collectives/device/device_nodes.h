#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/device/hierarchical_device_collectives.h"
#include "tests/collectives/device/device_ranks.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives::contract {

/// Wraps the channel of one rank to other nodes.
using WrapPeers = std::function<std::unique_ptr<PointToPoint>(std::unique_ptr<PointToPoint>, int)>;

/// Runs function(rank) on a thread with a host device for each letter of `nodes`, which names the
/// node of the rank. See run_device_ranks().
inline void run_device_nodes(const std::string& nodes, std::uint64_t seed,
                             const std::function<void(DeviceRank&)>& function,
                             std::chrono::nanoseconds timeout = std::chrono::minutes(5),
                             const WrapPeers& wrap = {}) {
  InProcessJob::Options options;
  options.wait.timeout = timeout;
  run_thread_ranks(static_cast<int>(nodes.size()), options, [&](Transport& transport, int rank) {
    const Topology topology = topology_of(nodes, rank);
    const auto abort = [&](const std::string& reason) { transport.abort(reason.c_str()); };
    device::HostDevice device({.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 100),
                               .seed = seed * 100 + static_cast<std::uint64_t>(rank)});
    HierarchicalDeviceCollectives::Levels levels;
    levels.node_ring = std::make_unique<NodeRing>(transport.make_point_to_point(), topology, 4096);
    levels.peers = transport.make_point_to_point();
    if (wrap) levels.peers = wrap(std::move(levels.peers), rank);
    if (topology.local_size > 1)
      levels.node = std::make_unique<HostDeviceCollectives>(
          levels.node_ring->collectives(), topology.local_rank, topology.local_size, abort);
    HierarchicalDeviceCollectives collectives(device, topology, std::move(levels),
                                              {.slot_bytes = 4000, .segment_bytes = 4096}, abort);
    DeviceRank own{rank, topology.size, device, collectives};
    function(own);
  });
}

}  // namespace horo::collectives::contract
