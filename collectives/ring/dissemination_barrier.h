#pragma once

#include <string>
#include <vector>

#include "collectives/point_to_point.h"

namespace horo::collectives {

/// Barrier in ceil(log2 n) rounds: in round k every rank sends to the rank 2^k ahead and receives
/// from the one 2^k behind. (Source: Hensgen, Finkel and Manber, "Two algorithms for barrier
/// synchronization", 1988.) `rank_names` are for error texts.
void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names);

}  // namespace horo::collectives
