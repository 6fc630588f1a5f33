#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;

Backend ring_of_threads(int ranks, std::chrono::microseconds max_delay) {
  return {std::to_string(ranks) + (max_delay.count() > 0 ? "_ranks_delayed" : "_ranks"),
          [=](const RankFunction& function) {
            InProcessJob::Options options;
            options.max_delay = max_delay;
            run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
              const auto peers = transport.make_point_to_point();
              RingCollectives ring(*peers, kSegmentBytes);
              function(ring, rank, ranks);
            });
          }};
}

std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (int ranks = 1; ranks <= 9; ++ranks) result.push_back(ring_of_threads(ranks, {}));
  return result;
}

INSTANTIATE_TEST_SUITE_P(RingOfThreads, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
