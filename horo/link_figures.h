#pragma once

#include "collectives/collectives.h"
#include "collectives/point_to_point.h"
#include "collectives/selection/allreduce_selection.h"
#include "horo/base/environment.h"
#include "horo/base/topology.h"

namespace horo {

/// How this job chooses among the allreduces over messages. Where HORO_ALLREDUCE leaves the choice
/// and there are several nodes, the cost of messages between them is taken from HORO_LINK_FILE, or
/// measured (see measure_link(); the slowest pair counts) and added to that file. Rank 0 logs the
/// figures at level info.
///
/// Collective over the job, once, when the settings are known to agree. `collectives` works over
/// `peers` and has a selection of its own. Throws InvalidArgument, with the same text on every
/// rank, if the file cannot be used.
collectives::AllreduceSelection agree_on_allreduce(const Settings& settings,
                                                   collectives::PointToPoint& peers,
                                                   collectives::Collectives& collectives,
                                                   const Topology& topology);

}  // namespace horo
