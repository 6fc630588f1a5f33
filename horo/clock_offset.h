#pragma once

#include <cstdint>

#include "collectives/collectives.h"
#include "collectives/point_to_point.h"
#include "horo/base/topology.h"

namespace horo {

/// What the flight recorders of a job share.
struct JobClock {
  std::uint64_t job = 0;          ///< a number for the job, the same on all ranks; grows with time
  std::int64_t clock_offset = 0;  ///< ns to be added to this host's wall clock to get rank 0's
};

/// Agrees on them. The offset of each node is measured once, by its first rank: of some round trips
/// with rank 0 the shortest counts, half of which is what the offset may be wrong by. (Source:
/// Cristian, "Probabilistic clock synchronization", 1989.) Collective.
JobClock agree_on_clock(collectives::PointToPoint& peers, collectives::Collectives& collectives,
                        const Topology& topology);
/// The same for a job of one.
JobClock own_clock();

}  // namespace horo
