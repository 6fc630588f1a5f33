#include <mpi.h>

#include <memory>

#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/mpi/mpi_collectives.h"
#include "collectives/mpi/mpi_point_to_point.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/collectives_contract.h"

namespace horo::collectives::contract {
namespace {

constexpr std::size_t kSegmentBytes = 4096;
// A small limit, so that most messages of the suite are split.
constexpr std::size_t kSplitBytes = 1000;

void run_ring(const RankFunction& function) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const auto peers = transport.make_point_to_point();
  RingCollectives ring(*peers, kSegmentBytes);
  function(ring, peers->rank(), peers->size());
}

void run_ring_of_split_messages(const RankFunction& function) {
  const WaitPolicy policy;
  MpiPointToPoint peers(MpiComm::duplicate_of(MPI_COMM_WORLD, policy), policy, kSplitBytes);
  RingCollectives ring(peers, 16384);
  function(ring, peers.rank(), peers.size());
}

void run_reference(const RankFunction& function) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const auto collectives = transport.make_reference_collectives();
  function(*collectives, transport.topology().rank, transport.topology().size);
}

void run_split_reference(const RankFunction& function) {
  const WaitPolicy policy;
  MpiComm comm = MpiComm::duplicate_of(MPI_COMM_WORLD, policy);
  const int rank = comm.rank();
  const int size = comm.size();
  MpiCollectives collectives(std::move(comm), policy, kSplitBytes);
  function(collectives, rank, size);
}

void run_shared_memory(Transport& transport, const std::function<void(Collectives&)>& function) {
  const Topology& topology = transport.topology();
  const SharedMemoryCollectives::Options options{.segment_bytes = 16384, .direct_bytes = 1024};
  std::vector<std::string> names;
  for (const int rank : topology.ranks_of(topology.node)) names.push_back(topology.describe(rank));
  SharedMemoryCollectives node(transport.make_node_region(SharedMemoryCollectives::bytes_needed(
                                   topology.local_size, options)),
                               topology.local_rank, names, options, transport.wait_policy());
  function(node);
}

Backend hierarchical(std::size_t ranks_per_node) {
  return {"Hierarchical_" + std::to_string(ranks_per_node) + "_ranks_per_node",
          [=](const RankFunction& function) {
            MpiTransport transport(MPI_COMM_WORLD, {}, ranks_per_node);
            const Topology& topology = transport.topology();
            const auto across = transport.make_point_to_point();
            run_shared_memory(transport, [&](Collectives& node) {
              HierarchicalCollectives collectives(topology, node, *across, {kSegmentBytes, 65536});
              function(collectives, topology.rank, topology.size);
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Mpi, CollectivesContract,
    testing::Values(Backend{"Ring", run_ring, {kSegmentBytes}},
                    Backend{"RingOfSplitMessages", run_ring_of_split_messages, {kSplitBytes}},
                    Backend{"Reference", run_reference},
                    Backend{"SplitReference", run_split_reference, {kSplitBytes}}, hierarchical(0),
                    hierarchical(1), hierarchical(2), hierarchical(3)),
    case_name);

}  // namespace
}  // namespace horo::collectives::contract
