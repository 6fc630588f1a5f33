#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/sockets/socket_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 4096;

Backend ring(const std::string& name, Carrier carrier, int ranks) {
  return {name + "_" + std::to_string(ranks) + "_ranks",
          [=](const RankFunction& function) {
            run_socket_ranks(ranks, carrier, [&](SocketRank& rank) {
              const auto peers = rank.peers(1);
              RingCollectives collectives(*peers, kSegmentBytes);
              function(collectives, rank.topology.rank, ranks);
            });
          },
          {kSegmentBytes}};
}

// Emulated nodes of `per_node` ranks, each with shared memory.
Backend hierarchical(int ranks, std::size_t per_node) {
  return {
      "Hierarchical_" + std::to_string(ranks) + "_ranks_" + std::to_string(per_node) + "_per_node",
      [=](const RankFunction& function) {
        run_groups(ranks, [&](RankGroup& group, int rank) {
          SocketTransport transport(group, {}, per_node);
          const Topology& topology = transport.topology();
          const SharedMemoryCollectives::Options options{.segment_bytes = 16384,
                                                         .direct_bytes = 1024};
          SharedMemoryCollectives node(
              transport.make_node_region(
                  SharedMemoryCollectives::bytes_needed(topology.local_size, options)),
              topology.local_rank, names_of(topology, topology.ranks_of(topology.node)), options,
              transport.wait_policy());
          const auto across = transport.make_point_to_point();
          HierarchicalCollectives collectives(topology, node, *across, {kSegmentBytes, 65536});
          function(collectives, rank, ranks);
          group.gather_values(rank, "for the end of the test");
        });
      }};
}

INSTANTIATE_TEST_SUITE_P(Sockets, CollectivesContract,
                         testing::Values(ring("RingOverUnixSockets", Carrier::kUnixSockets, 3),
                                         ring("RingOverTcp", Carrier::kTcp, 2),
                                         ring("RingOverTcp", Carrier::kTcp, 5), hierarchical(4, 2),
                                         hierarchical(3, 0)),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
