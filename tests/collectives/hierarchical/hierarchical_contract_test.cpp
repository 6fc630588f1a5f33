#include "collectives/hierarchical/hierarchical_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;
// Small blocks, so that the suite's buffers take several.
constexpr HierarchicalCollectives::Options kOptions{.segment_bytes = kSegmentBytes,
                                                    .block_bytes = 16 * 1024};

// `nodes`: the node of each rank, one letter each. Inside a node, a ring.
Backend nodes_of_rings(const std::string& nodes) {
  return {"rings_" + nodes, [=](const RankFunction& function) {
            std::vector<std::string> keys;
            for (const char node : nodes) keys.emplace_back(1, node);
            run_thread_ranks(
                static_cast<int>(nodes.size()), {}, [&](Transport& transport, int rank) {
                  const Topology topology = make_topology(rank, keys, keys);
                  const auto inside = transport.make_point_to_point();
                  const auto across = transport.make_point_to_point();
                  SubGroup group(*inside, topology.ranks_of(topology.node), 0);
                  RingCollectives node(group, kSegmentBytes);
                  HierarchicalCollectives collectives(topology, node, *across, kOptions);
                  function(collectives, rank, topology.size);
                });
          }};
}

// Inside a node, shared memory.
Backend nodes_of_shared_memory(const std::string& nodes) {
  return {"shared_memory_" + nodes, [=](const RankFunction& function) {
            run_on_nodes(nodes, {}, [&](NodeRank& rank) {
              HierarchicalCollectives collectives(rank.topology, *rank.node, *rank.across,
                                                  kOptions);
              function(collectives, rank.topology.rank, rank.topology.size);
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Hierarchical, CollectivesContract,
    testing::Values(nodes_of_rings("a"), nodes_of_rings("aaa"), nodes_of_rings("ab"),
                    nodes_of_rings("abc"), nodes_of_rings("aabb"), nodes_of_rings("abab"),
                    nodes_of_rings("aaab"), nodes_of_rings("aabab"), nodes_of_rings("aaaaabbbcc"),
                    nodes_of_shared_memory("aabb"), nodes_of_shared_memory("abb"),
                    nodes_of_shared_memory("aaab"), nodes_of_shared_memory("aaabbcc"),
                    nodes_of_shared_memory("aaaabbbb")),
    case_name);

}  // namespace
}  // namespace horo::collectives::contract
