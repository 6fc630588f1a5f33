#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;

Backend ring_of_threads(const std::string& name, int ranks, MessageAllreduce allreduce) {
  const auto n = static_cast<std::size_t>(ranks);
  Backend backend{name + "_" + std::to_string(ranks) + "_ranks", [=](const RankFunction& function) {
                    run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
                      const auto peers = transport.make_point_to_point();
                      RingCollectives ring(*peers, kSegmentBytes, {}, {allreduce});
                      function(ring, rank, ranks);
                    });
                  }};
  // The size of a segment, of one segment per rank, and of several per rank.
  backend.boundaries = {kSegmentBytes, n * kSegmentBytes};
  backend.allreduce_order = allreduce == MessageAllreduce::kRing ? Order::kRing : Order::kOwn;
  backend.reduce_scatter_order = Order::kRing;
  return backend;
}

std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const int ranks : kRankCounts)
    result.push_back(ring_of_threads("Ring", ranks, MessageAllreduce::kRing));
  for (const int ranks : {2, 3, 7}) {
    result.push_back(ring_of_threads("Auto", ranks, MessageAllreduce::kAuto));
    result.push_back(ring_of_threads("Exchange", ranks, MessageAllreduce::kExchange));
    result.push_back(ring_of_threads("Doubling", ranks, MessageAllreduce::kDoubling));
    result.push_back(ring_of_threads("Halving", ranks, MessageAllreduce::kHalving));
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(RingOfThreads, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(RingOfThreads, OrderContract,
                         testing::ValuesIn(with_documented_order(backends())), case_name);

}  // namespace
}  // namespace horo::collectives::contract
