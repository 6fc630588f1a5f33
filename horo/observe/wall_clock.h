#pragma once

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// The time by this host's clock.
WallTime wall_time_now();

/// Gives all times of a snapshot by a clock that is `offset` ahead; 0 stays 0.
void shift_times(RankSnapshot& snapshot, WallTime offset);

}  // namespace horo::observe
