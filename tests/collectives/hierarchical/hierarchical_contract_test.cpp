#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;
// Small blocks, so that the suite's buffers take several. Work costs all, so that it is shared.
constexpr HierarchicalCollectives::Options kShards{
    .segment_bytes = kSegmentBytes, .block_bytes = 16 * 1024, .allreduce = {.link = {1e-9, 0, 1}}};
// Messages cost all, so that one rank of a node sends them.
constexpr HierarchicalCollectives::Options kLeaders{
    .segment_bytes = kSegmentBytes, .block_bytes = 16 * 1024, .allreduce = {.link = {1, 0, 0}}};

// `nodes`: the node of each rank, one letter each. Inside a node, a ring.
Backend nodes_of_rings(const std::string& nodes,
                       const HierarchicalCollectives::Options& options = kShards) {
  const std::string name = options.allreduce == kShards.allreduce ? "rings_" : "led_rings_";
  return {name + nodes, [=](const RankFunction& function) {
            std::vector<std::string> keys;
            for (const char node : nodes) keys.emplace_back(1, node);
            run_thread_ranks(
                static_cast<int>(nodes.size()), {}, [&](Transport& transport, int rank) {
                  const Topology topology = make_topology(rank, keys, keys);
                  const auto inside = transport.make_point_to_point();
                  const auto across = transport.make_point_to_point();
                  SubGroup group(*inside, topology.ranks_of(topology.node), 0);
                  RingCollectives node(group, kSegmentBytes);
                  HierarchicalCollectives collectives(topology, node, *across, options);
                  function(collectives, rank, topology.size);
                });
          }};
}

// Inside a node, shared memory.
Backend nodes_of_shared_memory(int ranks, std::size_t ranks_per_node,
                               const HierarchicalCollectives::Options& hierarchy = kShards) {
  const std::string name =
      hierarchy.allreduce == kShards.allreduce ? "shared_memory_" : "led_shared_memory_";
  return {name + std::to_string(ranks) + "_by_" + std::to_string(ranks_per_node),
          [=](const RankFunction& function) {
            InProcessJob::Options options;
            options.ranks_per_node = ranks_per_node;
            run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
              const Topology& topology = transport.topology();
              const SharedMemoryCollectives::Options memory{.segment_bytes = 4096,
                                                            .direct_bytes = 1024};
              std::vector<std::string> names;
              for (const int r : topology.ranks_of(topology.node))
                names.push_back(topology.describe(r));
              SharedMemoryCollectives node(
                  transport.make_node_region(
                      SharedMemoryCollectives::bytes_needed(topology.local_size, memory)),
                  topology.local_rank, names, memory, transport.wait_policy());
              const auto across = transport.make_point_to_point();
              HierarchicalCollectives collectives(topology, node, *across, hierarchy);
              function(collectives, rank, ranks);
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Hierarchical, CollectivesContract,
    testing::Values(nodes_of_rings("a"), nodes_of_rings("aaa"), nodes_of_rings("ab"),
                    nodes_of_rings("abc"), nodes_of_rings("aabb"), nodes_of_rings("abab"),
                    nodes_of_rings("aaab"), nodes_of_rings("aabab"), nodes_of_rings("aaaaabbbcc"),
                    nodes_of_shared_memory(4, 2), nodes_of_shared_memory(5, 3),
                    nodes_of_rings("aabb", kLeaders), nodes_of_rings("aaaaabbbcc", kLeaders),
                    nodes_of_shared_memory(4, 2, kLeaders), nodes_of_shared_memory(5, 3, kLeaders)),
    case_name);

}  // namespace
}  // namespace horo::collectives::contract
