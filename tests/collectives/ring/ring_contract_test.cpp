#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;

// exchange_bytes: see RingCollectives.
Backend ring_of_threads(const std::string& name, int ranks, std::size_t exchange_bytes) {
  const auto n = static_cast<std::size_t>(ranks);
  Backend backend{name + "_" + std::to_string(ranks) + "_ranks", [=](const RankFunction& function) {
                    run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
                      const auto peers = transport.make_point_to_point();
                      RingCollectives ring(*peers, kSegmentBytes, {}, exchange_bytes);
                      function(ring, rank, ranks);
                    });
                  }};
  // A segment; one of each rank's chunk; several of each.
  backend.boundaries = {kSegmentBytes, n * kSegmentBytes};
  backend.allreduce_order = exchange_bytes > 0 ? Order::kRank : Order::kRing;
  backend.reduce_scatter_order = Order::kRing;
  return backend;
}

// Both ways of an allreduce, with the size between them among those that are checked.
Backend ring_with_exchange_up_to(std::size_t bytes) {
  Backend backend = ring_of_threads("UpTo" + std::to_string(bytes), 3, bytes);
  backend.boundaries.push_back(bytes / 3);
  backend.allreduce_order = Order::kOwn;
  return backend;
}

std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const int ranks : kRankCounts) result.push_back(ring_of_threads("Ring", ranks, 0));
  for (const int ranks : {2, 7}) result.push_back(ring_of_threads("Exchange", ranks, 1 << 30));
  result.push_back(ring_with_exchange_up_to(768));
  return result;
}

INSTANTIATE_TEST_SUITE_P(RingOfThreads, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(RingOfThreads, OrderContract,
                         testing::ValuesIn(with_documented_order(backends())), case_name);

}  // namespace
}  // namespace horo::collectives::contract
