#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;
// Small blocks, so that the suite's buffers take several.
constexpr HierarchicalCollectives::Options kOptions{.segment_bytes = kSegmentBytes,
                                                    .block_bytes = 8 * 1024};
// A segment, a block.
const std::vector<std::size_t> kBoundaries = {kSegmentBytes, kOptions.block_bytes};

// `nodes`: the node of each rank, one letter each. Inside a node, a ring.
Backend nodes_of_rings(const std::string& nodes) {
  return {"rings_" + nodes,
          [=](const RankFunction& function) {
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
          },
          kBoundaries};
}

// Inside a node, shared memory.
Backend nodes_of_shared_memory(int ranks, std::size_t ranks_per_node) {
  return {"shared_memory_" + std::to_string(ranks) + "_by_" + std::to_string(ranks_per_node),
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
              HierarchicalCollectives collectives(topology, node, *across, kOptions);
              function(collectives, rank, ranks);
            });
          },
          kBoundaries};
}

// Equal nodes, uneven ones, ranks dealt to nodes in turn.
std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const char* nodes :
       {"a", "aaa", "ab", "abc", "aab", "aabb", "abab", "abbc", "aabab", "aaabbcc", "aaaabbbb"})
    result.push_back(nodes_of_rings(nodes));
  result.push_back(nodes_of_shared_memory(4, 2));
  result.push_back(nodes_of_shared_memory(5, 3));
  result.push_back(nodes_of_shared_memory(7, 3));
  return result;
}

INSTANTIATE_TEST_SUITE_P(Hierarchical, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
