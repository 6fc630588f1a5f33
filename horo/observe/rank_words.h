#pragma once

#include <span>
#include <string>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// "rank 3 (host b, pid 7)", "ranks 0 and 2-3 (host a, pid 4; host b, pids 6, 7)"; of more than
/// four the first four are told with host and pid. `numbers` that are not among `ranks` have
/// neither. Pure.
std::string describe_ranks(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks);

/// What the ranks did last: "it last finished 'step' 43 s ago, in phase 'data' for 42 s", or, of
/// several, "ranks 0 and 2 last finished 'step' 43 s ago; rank 1 has finished nothing". Empty if
/// nothing at all is known of them. Pure.
std::string describe_past(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks,
                          WallTime now);

/// "rank 3 has", "ranks 0-2 have": `singular` or `plural` after the ranks' numbers.
std::string with_verb(const std::vector<int>& numbers, const char* singular, const char* plural);

}  // namespace horo::observe
