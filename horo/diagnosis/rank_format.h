#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "horo/base/wait.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// Before horo ends its own process, it logs a line with the reason, followed by one of these
/// texts. kEndOfReasonInInit is used if the rank waited in horo::init(). The launcher parses this
/// line, which is usually the last line of the rank, and quotes the reason.
inline constexpr std::string_view kEndOfReasonInInit = ": the process of rank ";
inline constexpr std::string_view kEndOfReason = "; this rank is stuck in ";
/// Precedes the timeout in a reason. The launcher parses this text too.
using horo::kTimeoutMark;

/// Returns a text such as "rank 3 (host b, pid 7)" or "ranks 0 and 2-3 (host a, pid 4; host b, pids
/// 6, 7)". Gives the host and, if known, the pid of each of the first four of `numbers` that is in
/// `ranks`. Pure.
std::string describe_ranks(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks);

/// Returns the last activity of the ranks. For one rank, the text is such as "it last finished
/// 'step' 43 s ago, in phase 'data' for 42 s". For several ranks, it is such as "ranks 0 and 2 last
/// finished 'step' 43 s ago; rank 1 has finished nothing". Empty if nothing is known. Pure.
std::string describe_past(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks,
                          WallTime now);

/// Returns the ranks, followed by `singular` or `plural`, such as "rank 3 has" or "ranks 0-2 have".
std::string with_verb(const std::vector<int>& numbers, const char* singular, const char* plural);

/// Describes running ranks that have been in a pause for at least `lasting`, and the ranks that
/// wait for them: "rank 2 (host b, pid 7) has been in pause 'checkpoint' for 12 min; ranks 0-1 have
/// waited 10 min for 'loss'". The text has one part for each name of a pause. The text is empty if
/// there is no such rank. Pure.
std::string describe_pauses(std::span<const RankSnapshot> ranks, WallTime now,
                            std::chrono::nanoseconds lasting);

/// Describes ranks that run or have left the job, and have been in a completion callback for at
/// least `lasting`: "rank 1 (host b, pid 7) has been in the completion callback of 'loss' for 4 s:
/// its other operations wait for its return". Empty if there is no such rank. Pure.
std::string describe_callbacks(std::span<const RankSnapshot> ranks, WallTime now,
                               std::chrono::nanoseconds lasting);

}  // namespace horo::observe
