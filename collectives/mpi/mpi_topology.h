#pragma once

#include <cstddef>
#include <vector>

#include "collectives/mpi/mpi_handles.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Where the ranks of `comm` sit, by MPI's own notion of which can share memory. Collective.
/// `ranks_per_node` > 0 divides each real node into pretended ones: blocks of so many consecutive
/// ranks.
Topology gather_topology(const MpiComm& comm, std::size_t ranks_per_node, const WaitPolicy& policy);

/// The ranks in MPI_COMM_WORLD of the ranks of `comm`, in its order. Not collective.
std::vector<int> world_ranks_of(MPI_Comm comm);

}  // namespace horo::collectives
