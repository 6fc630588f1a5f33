#include "collectives/mpi/mpi_topology.h"

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <vector>

namespace horo::collectives {
namespace {

constexpr std::string_view kWaitText = "for all ranks to tell where they are";

// The lowest rank of `comm` on this rank's real node.
int first_rank_on_node(const MpiComm& comm, const WaitPolicy& policy) {
  MPI_Comm split = MPI_COMM_NULL;
  const int rank = comm.rank();
  HORO_MPI(MPI_Comm_split_type(comm.get(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &split));
  const MpiComm node(split);
  MpiBuffer<int> first(rank);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Ibcast(&*first, 1, MPI_INT, 0, node.get(), &request));
  wait_for_mpi(request, policy, kWaitText);
  return *first;
}

}  // namespace

Topology gather_topology(const MpiComm& comm, std::size_t ranks_per_node,
                         const WaitPolicy& policy) {
  struct Record {
    int first_rank_on_node = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = {};
  };
  MpiBuffer<Record> own;
  int length = 0;
  HORO_MPI(MPI_Get_processor_name(own->host, &length));
  own->first_rank_on_node = first_rank_on_node(comm, policy);
  MpiBuffer<std::vector<Record>> all(std::vector<Record>(static_cast<std::size_t>(comm.size())));
  const std::vector<Record>& records = *all;
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Iallgather(&*own, sizeof(Record), MPI_BYTE, all->data(), sizeof(Record), MPI_BYTE,
                          comm.get(), &request));
  wait_for_mpi(request, policy, kWaitText);

  std::vector<std::string> keys;
  std::vector<std::string> hosts;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const std::size_t block = ranks_per_node == 0 ? 0 : r / ranks_per_node;
    keys.push_back(fmt::format("{}/{}", records[r].first_rank_on_node, block));
    hosts.emplace_back(records[r].host);
  }
  return make_topology(comm.rank(), keys, hosts);
}

std::vector<int> world_ranks_of(MPI_Comm comm) {
  MPI_Group own = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  HORO_MPI(MPI_Comm_group(comm, &own));
  HORO_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  int size = 0;
  HORO_MPI(MPI_Group_size(own, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::vector<int> world_ranks(ranks.size(), MPI_UNDEFINED);
  std::iota(ranks.begin(), ranks.end(), 0);
  HORO_MPI(MPI_Group_translate_ranks(own, size, ranks.data(), world, world_ranks.data()));
  MPI_Group_free(&own);
  MPI_Group_free(&world);
  return world_ranks;
}

}  // namespace horo::collectives
