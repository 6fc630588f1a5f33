#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/topology.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// An operation that is open on some ranks.
struct MissingOperation {
  OpenOperation operation;   ///< as on the first rank on which it is open
  WallTime since = 0;        ///< the earliest submission by a waiting rank
  std::vector<int> waiting;  ///< the ranks that have submitted it, ascending
  std::vector<int> missing;  ///< the ranks that have not submitted it, ascending
  std::size_t others = 0;    ///< number of further such operations with the same kind and ranks
};

/// Returns the operations that some rank submitted more than `age` before `now` and another rank
/// has not submitted. Pure. The oldest operation comes first, but joins come last. Operations of
/// the same kind, process set and ranks are one element, the oldest of them. The rules:
///
///   - A named operation that has started on any rank is missing on no rank.
///   - An operation of a plan is not missing on a rank that is ahead of all ranks that wait in it.
///   - On a rank that has called join(), no other named operation of the same process set than a
///     join or a shutdown is missing.
///   - The members of a process set are those that its name lists. If the name has no list, the
///     members are the ranks that have open operations of the set.
///   - On a rank with unlisted operations, no named operation is missing.
///   - If a rank waits in MPI_Finalize, that call is missing on every rank that has not called
///     MPI_Finalize and has not left the job.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age);

/// Returns the oldest open operation that was submitted more than `age` before `now` and that every
/// member is known to have submitted. Returns at most one operation. In the result, `missing` has
/// the members that have already finished the operation.
std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age);

/// Returns the oldest operation in which ranks other than the `blockers` wait for a blocker: a
/// blocker has not submitted the operation, or it is open on the blocker too. If there is no such
/// operation, returns the oldest operation in which other ranks wait, that a blocker seems to have
/// finished, and that is missing on no rank. The last messages of the blocker for that operation
/// may not have arrived. Pure. A rank waits in each operation that it has submitted, but in a
/// gradient only while the bucket of the gradient is exchanged. In the result, `waiting` and
/// `since` are without the blockers. `missing` has the blockers that have not submitted the
/// operation, and may be empty.
std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& blockers);

/// Whether `rank` waits in `missing` and is blocked. A rank that has marked a gradient is blocked
/// only while it exchanges the bucket of the gradient. Pure.
bool is_blocked_in(const MissingOperation& missing, const RankSnapshot& rank);

/// Returns a text such as "rank 3" or "ranks 0-2 and 5".
std::string format_ranks(std::vector<int> ranks);
/// Returns the ranks that `text` names at its beginning, in the format of format_ranks(). Empty if
/// there are none.
std::vector<int> ranks_named_first(std::string_view text);

}  // namespace horo::observe
