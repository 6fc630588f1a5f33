#pragma once

#include "collectives/point_to_point.h"
#include "collectives/selection/link_cost.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Measures what messages between nodes cost: the first ranks of nodes 0 and 1, 2 and 3, ... play
/// ping-pong with small and with large messages, all pairs at once as in an allreduce, and time the
/// kernel that combines. Medians; bounded in rounds, and in time (about 100 ms unless single
/// messages take longer). Returns what this rank's pair found; zeros on a rank without a pair.
///
/// Collective over `peers`, all ranks of the job, which carries nothing else meanwhile. Throws
/// CommunicationError, naming the rank waited for.
LinkCost measure_link(PointToPoint& peers, const Topology& topology);

}  // namespace horo::collectives
