#include "collectives/parameter_server/parameter_server_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 512;

Backend servers_of_threads(int ranks, std::size_t servers) {
  Backend backend{std::to_string(ranks) + "_ranks_" + std::to_string(servers) + "_servers",
                  [=](const RankFunction& function) {
                    run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
                      const auto peers = transport.make_point_to_point();
                      ParameterServerCollectives collectives(*peers, kSegmentBytes, servers);
                      function(collectives, rank, ranks);
                    });
                  }};
  // The size of a segment, and of one segment per server.
  backend.boundaries = {kSegmentBytes,
                        std::min(servers, static_cast<std::size_t>(ranks)) * kSegmentBytes};
  backend.allreduce_order = Order::kRank;
  backend.reduce_scatter_order = Order::kRing;
  return backend;
}

std::vector<Backend> backends() {
  std::vector<Backend> result = {servers_of_threads(4, 4), servers_of_threads(7, 3),
                                 servers_of_threads(8, 20)};
  for (const int ranks : kRankCounts)
    for (const std::size_t servers : {1, 2}) result.push_back(servers_of_threads(ranks, servers));
  return result;
}

INSTANTIATE_TEST_SUITE_P(ParameterServer, CollectivesContract, testing::ValuesIn(backends()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ParameterServer, OrderContract,
                         testing::ValuesIn(with_documented_order(backends())), case_name);

}  // namespace
}  // namespace horo::collectives::contract
