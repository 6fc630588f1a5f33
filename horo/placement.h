#pragma once

#include <cstddef>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo {

/// The processors that rank `local_rank` of `local_size` gets of `processors`: a contiguous share
/// of equal size, the remainder unused. Empty if there are fewer processors than ranks.
std::vector<int> share_of(const std::vector<int>& processors, int local_rank, int local_size);

/// What to do about OpenMP, whose threads would share too few processors in a bound process.
enum class OpenMpPlan {
  kLeave,       ///< its threads fit
  kSetThreads,  ///< one thread for each processor of the share
  kDoNotBind,   ///< the program or its user asks for more threads than the share has processors
};

/// `threads`: as omp_get_max_threads() says before the process is bound; `is_set_by_user`: by
/// OMP_NUM_THREADS; `processors`: that the process may use; `share`: that it would be bound to. A
/// number of threads that is the number of processors is OpenMP's default, another one is a choice.
OpenMpPlan plan_openmp(std::size_t threads, bool is_set_by_user, std::size_t processors,
                       std::size_t share);

/// Binds the calling thread, and so the threads that it starts later, to this rank's share of the
/// processors that the node's ranks may use. Does nothing, on any rank, where two ranks of the job
/// may use different processors (somebody has placed them already, or their nodes differ), nor on a
/// node with fewer than it has ranks. OpenMP, if the process has it, gets as many threads as the
/// share has processors, unless more were asked for: then the rank is not bound. Collective over
/// the job.
void keep_to_own_processors(collectives::Collectives& collectives, const Topology& topology);

}  // namespace horo
