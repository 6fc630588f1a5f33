#include "collectives/hierarchical/hierarchical_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;
// Small blocks, so that the buffers of the suite take several. The link cost has only gamma, so the
// work is shared.
constexpr HierarchicalCollectives::Options kShards{
    .segment_bytes = kSegmentBytes, .block_bytes = 8 * 1024, .allreduce = {.link = {1e-9, 0, 1}}};
// The link cost has only alpha, so one rank per node sends the messages.
constexpr HierarchicalCollectives::Options kLeaders{
    .segment_bytes = kSegmentBytes, .block_bytes = 8 * 1024, .allreduce = {.link = {1, 0, 0}}};
// All buffers use the ring.
constexpr HierarchicalCollectives::Options kRings{
    .segment_bytes = kSegmentBytes,
    .block_bytes = 8 * 1024,
    .allreduce = {.setting = MessageAllreduce::kRing}};
// The sizes of a segment and of a block.
const std::vector<std::size_t> kBoundaries = {kSegmentBytes, kShards.block_bytes};

std::string prefix_of(const HierarchicalCollectives::Options& options) {
  if (options.allreduce == kLeaders.allreduce) return "led_";
  return options.allreduce == kRings.allreduce ? "ring_only_" : "";
}

// `nodes` names the node of each rank, one letter each. Uses a ring inside a node.
Backend nodes_of_rings(const std::string& nodes,
                       const HierarchicalCollectives::Options& options = kShards) {
  return {prefix_of(options) + "rings_" + nodes,
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
                  HierarchicalCollectives collectives(topology, node, *across, options);
                  function(collectives, rank, topology.size);
                });
          },
          kBoundaries};
}

// Uses shared memory inside a node.
Backend nodes_of_shared_memory(const std::string& nodes,
                               const HierarchicalCollectives::Options& options = kShards) {
  return {prefix_of(options) + "shared_memory_" + nodes,
          [=](const RankFunction& function) {
            run_on_nodes(nodes, {}, [&](NodeRank& rank) {
              HierarchicalCollectives collectives(rank.topology, *rank.node, *rank.across, options);
              function(collectives, rank.topology.rank, rank.topology.size);
            });
          },
          kBoundaries};
}

// Equal nodes, uneven nodes, and ranks assigned to nodes cyclically.
std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const char* nodes : {"a", "aaa", "ab", "abc", "abab", "aaabbcc"})
    result.push_back(nodes_of_rings(nodes));
  for (const char* nodes : {"aabb", "abb", "aaaabbbb"})
    result.push_back(nodes_of_shared_memory(nodes));
  result.push_back(nodes_of_rings("abbc", kLeaders));
  result.push_back(nodes_of_shared_memory("aabb", kLeaders));
  result.push_back(nodes_of_shared_memory("aaabbcc", kRings));
  return result;
}

INSTANTIATE_TEST_SUITE_P(Hierarchical, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
