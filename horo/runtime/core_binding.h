#pragma once

#include <cstddef>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo {

/// Returns the processors of rank `local_rank`: a contiguous share of the list `processors`. The
/// shares of all `local_size` ranks have the same size, and a remainder stays unused. The result is
/// empty if there are fewer processors than ranks. Pure.
std::vector<int> share_of(const std::vector<int>& processors, int local_rank, int local_size);

/// How to bind a process that uses OpenMP, whose threads might not fit into the share.
enum class OpenMpPlan {
  kLeave,       ///< the number of threads fits
  kSetThreads,  ///< set one thread per processor of the share
  kDoNotBind,   ///< the program or the user has set more threads than the share has processors
};

/// `threads` is omp_get_max_threads() before the process is bound. `is_set_by_user` is true if
/// OMP_NUM_THREADS is set. `processors` is the number of processors that the process may use, and
/// `share` is the number of processors in its share. If the user has not set the number, the
/// function assumes that `threads` is OpenMP's default if it equals `processors`, and a choice of
/// the program otherwise. Pure.
OpenMpPlan plan_openmp(std::size_t threads, bool is_set_by_user, std::size_t processors,
                       std::size_t share);

/// Binds the calling thread, and the threads that it starts later, to this rank's share of the
/// processors that the node's ranks may use. Binds no rank if the ranks of the job do not all have
/// the same set of allowed processors. In that case, the launcher has probably placed the ranks, or
/// the nodes differ. Binds no rank of a node with fewer processors than ranks. If the process uses
/// OpenMP, plan_openmp() determines whether the rank is bound and whether the number of threads
/// changes. Collective over the job.
void bind_to_own_cores(collectives::Collectives& collectives, const Topology& topology);

}  // namespace horo
