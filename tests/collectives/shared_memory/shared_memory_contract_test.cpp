#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

// A segment of one page and a small direct size, so that the suite's sizes take every path.
constexpr std::size_t kSegmentBytes = 4096;
constexpr std::size_t kDirectBytes = 256;

Backend shared_memory_of_threads(const std::string& name, int ranks, Stores stores) {
  Backend backend{
      name + "_" + std::to_string(ranks) + "_ranks", [=](const RankFunction& function) {
        run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
          const SharedMemoryCollectives::Options options{
              .segment_bytes = kSegmentBytes, .direct_bytes = kDirectBytes, .stores = stores};
          SharedMemoryCollectives collectives(
              transport.make_node_region(SharedMemoryCollectives::bytes_needed(ranks, options)),
              rank, std::vector<std::string>(static_cast<std::size_t>(ranks), "a rank"), options,
              transport.wait_policy());
          function(collectives, rank, ranks);
        });
      }};
  backend.boundaries = {Flag::kInlineBytes, kDirectBytes, kSegmentBytes};
  backend.allreduce_order = backend.reduce_scatter_order = Order::kRank;
  return backend;
}

std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const int ranks : kRankCounts)
    result.push_back(shared_memory_of_threads("Plain", ranks, Stores::kPlain));
  for (const int ranks : {2, 3}) {
    result.push_back(shared_memory_of_threads("Streaming", ranks, Stores::kStreaming));
    result.push_back(shared_memory_of_threads("Probed", ranks, Stores::kAuto));
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(SharedMemoryOfThreads, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(SharedMemoryOfThreads, OrderContract,
                         testing::ValuesIn(with_documented_order(backends())), case_name);

}  // namespace
}  // namespace horo::collectives::contract
