#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/hierarchical/hierarchical_reductions.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

constexpr AllreduceSelection kShards{.link = {1e-9, 0, 1}};
constexpr AllreduceSelection kLeaders{.link = {1, 0, 0}};

// Runs function(collectives, rank) on every rank of `ranks`, `per_node` on a node.
void run(int ranks, std::size_t per_node, const AllreduceSelection& selection,
         std::chrono::nanoseconds timeout,
         const std::function<void(HierarchicalCollectives&, int)>& function) {
  InProcessJob::Options options;
  options.ranks_per_node = per_node;
  options.wait.timeout = timeout;
  contract::run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
    const Topology& topology = transport.topology();
    const SharedMemoryCollectives::Options memory{.segment_bytes = 4096, .direct_bytes = 1024};
    std::vector<std::string> names;
    for (const int r : topology.ranks_of(topology.node)) names.push_back(topology.describe(r));
    SharedMemoryCollectives node(transport.make_node_region(SharedMemoryCollectives::bytes_needed(
                                     topology.local_size, memory)),
                                 topology.local_rank, names, memory, transport.wait_policy());
    const auto peers = transport.make_point_to_point();
    HierarchicalCollectives collectives(
        topology, node, *peers,
        HierarchicalCollectives::Options{.segment_bytes = 4096, .allreduce = selection});
    function(collectives, rank);
  });
}

constexpr std::size_t kCounts[] = {1, 2, 3, 255, 1001, 5003};

// Returns each rank's results of all counts.
template <Element T>
std::vector<std::vector<std::vector<T>>> results(int ranks, std::size_t per_node, ReduceOp op,
                                                 const AllreduceSelection& selection) {
  std::vector<std::vector<std::vector<T>>> all(static_cast<std::size_t>(ranks));
  run(ranks, per_node, selection, std::chrono::minutes(1),
      [&](HierarchicalCollectives& collectives, int rank) {
        for (const std::size_t count : kCounts) {
          std::vector<T>& x = all[static_cast<std::size_t>(rank)].emplace_back();
          for (std::size_t i = 0; i < count; ++i)
            x.push_back(static_cast<T>(
                std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(rank) * 7 + 1))));
          collectives.allreduce({data_type_of<T>, x.data(), count}, op);
        }
      });
  return all;
}

template <Element T>
void expect_bits_of_shards(ReduceOp op) {
  for (const auto& [ranks, per_node] : {std::pair{4, 2}, {6, 2}, {7, 3}, {8, 2}, {5, 4}}) {
    const auto shards = results<T>(ranks, per_node, op, kShards);
    const auto leaders = results<T>(ranks, per_node, op, kLeaders);
    for (std::size_t r = 0; r < leaders.size(); ++r)
      for (std::size_t c = 0; c < std::size(kCounts); ++c)
        EXPECT_EQ(std::memcmp(leaders[r][c].data(), shards[0][c].data(), kCounts[c] * sizeof(T)), 0)
            << ranks << " ranks by " << per_node << ", " << kCounts[c] << " elements, rank " << r;
  }
}

TEST(LeaderAllreduce, MatchesBitsOfShards) {
  ASSERT_TRUE(should_use_leaders(kLeaders, 5003 * 4, 2, 2));
  ASSERT_FALSE(should_use_leaders(kShards, 1, 2, 2));
  expect_bits_of_shards<float>(ReduceOp::kSum);
  expect_bits_of_shards<float>(ReduceOp::kAverage);
  expect_bits_of_shards<BFloat16>(ReduceOp::kAverage);
  expect_bits_of_shards<Float16>(ReduceOp::kProduct);
}

TEST(LeaderAllreduce, NamesMissingLeader) {
  std::string text;
  run(4, 2, kLeaders, std::chrono::milliseconds(150),
      [&](HierarchicalCollectives& collectives, int rank) {
        if (rank >= 2) return;  // node 1 does not take part
        float x = 1;
        try {
          collectives.allreduce({DataType::kFloat32, &x, 1}, ReduceOp::kSum);
        } catch (const std::exception& error) {
          if (rank == 0) text = error.what();  // rank 1 waits for rank 0
        }
      });
  EXPECT_THAT(text, testing::HasSubstr("for rank 2 (host thread-node-1) to send its part"));
}

}  // namespace
}  // namespace horo::collectives
