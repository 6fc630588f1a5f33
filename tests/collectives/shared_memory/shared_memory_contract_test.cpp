#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

// A segment of one page and a small direct size, so that the suite's sizes take every path.
Backend shared_memory_of_threads(const std::string& name, int ranks, Stores stores) {
  return {name + "_" + std::to_string(ranks) + "_ranks", [=](const RankFunction& function) {
            run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
              const SharedMemoryCollectives::Options options{
                  .segment_bytes = 4096, .direct_bytes = 256, .stores = stores};
              SharedMemoryCollectives collectives(
                  transport.make_node_region(SharedMemoryCollectives::bytes_needed(ranks, options)),
                  rank, std::vector<std::string>(static_cast<std::size_t>(ranks), "a rank"),
                  options, transport.wait_policy());
              function(collectives, rank, ranks);
            });
          }};
}

std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (int ranks = 1; ranks <= 9; ++ranks)
    result.push_back(shared_memory_of_threads("Plain", ranks, Stores::kPlain));
  for (const int ranks : {2, 3}) {
    result.push_back(shared_memory_of_threads("Streaming", ranks, Stores::kStreaming));
    result.push_back(shared_memory_of_threads("Probed", ranks, Stores::kAuto));
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(SharedMemoryOfThreads, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
