#pragma once

#include <chrono>
#include <span>
#include <string>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// Which ranks that run have been in a pause for at least `lasting`, and who waits for them:
/// "rank 2 (host b, pid 7) has been in pause 'checkpoint' for 12 min; ranks 0-1 have waited 10 min
/// for 'loss'". Of pauses of other names one after the other. Empty: there are none. Pure.
std::string describe_pauses(std::span<const RankSnapshot> ranks, WallTime now,
                            std::chrono::nanoseconds lasting);

/// Which ranks that run have been in a completion callback for at least `lasting`: "rank 1 (host b,
/// pid 7) has been in the completion callback of 'loss' for 4 s: its other operations wait
/// for its return". Empty:
/// there are none. Pure.
std::string describe_callbacks(std::span<const RankSnapshot> ranks, WallTime now,
                               std::chrono::nanoseconds lasting);

}  // namespace horo::observe
