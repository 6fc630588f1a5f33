#pragma once

#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo {

/// The processors that rank `local_rank` of `local_size` gets of `processors`: a contiguous share
/// of equal size, the remainder unused. Empty if there are fewer processors than ranks.
std::vector<int> share_of(const std::vector<int>& processors, int local_rank, int local_size);

/// Binds the calling thread, and so the threads that it starts later, to this rank's share of the
/// processors that the node's ranks may use. Does nothing, on any rank, where two ranks of the job
/// may use different processors (somebody has placed them already, or their nodes differ), nor on a
/// node with fewer than it has ranks. Collective over the job.
void keep_to_own_processors(collectives::Collectives& collectives, const Topology& topology);

}  // namespace horo
