#include "collectives/parameter_server/parameter_server_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {
namespace {

Backend servers_of_threads(int ranks, std::size_t servers) {
  return {std::to_string(ranks) + "_ranks_" + std::to_string(servers) + "_servers",
          [=](const RankFunction& function) {
            run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
              const auto peers = transport.make_point_to_point();
              ParameterServerCollectives collectives(*peers, 512, servers);
              function(collectives, rank, ranks);
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(ParameterServer, CollectivesContract,
                         testing::Values(servers_of_threads(1, 1), servers_of_threads(2, 1),
                                         servers_of_threads(3, 2), servers_of_threads(4, 4),
                                         servers_of_threads(7, 3), servers_of_threads(8, 20)),
                         case_name);

}  // namespace
}  // namespace horo::collectives::contract
