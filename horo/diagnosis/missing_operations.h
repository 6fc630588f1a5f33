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

/// An operation that some ranks have submitted and others have not.
struct MissingOperation {
  OpenOperation operation;   ///< as submitted by the first waiting rank
  WallTime since = 0;        ///< the earliest submission
  std::vector<int> waiting;  ///< ascending
  std::vector<int> missing;  ///< ascending, not empty
  std::size_t others = 0;    ///< number of further operations of this kind with the same ranks
};

/// Returns the operations that some rank submitted more than `age` before `now` and another rank
/// has not submitted. Pure. Oldest first, except that joins are last, because whatever blocks a
/// join blocks other operations too. The rules:
///
///   - A named operation that has started on any rank was submitted on all ranks.
///   - A gradient is not missing on a rank that is ahead of all ranks that wait for it.
///   - After join(), only joins and shutdowns can be missing on a rank.
///   - The members of a process set are those in its name. If the name has none, they are the ranks
///     that have open operations of the set.
///   - On a rank with unlisted operations no named operation is missing.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age);

/// Returns the oldest open operation that was submitted more than `age` before `now`, if all
/// snapshots prove that every rank has submitted it. `missing`: the ranks that have finished it
/// already.
std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age);

/// Returns the oldest operation in which ranks other than the `blockers` wait for a blocker: a
/// blocker has not submitted it, or has it open itself. If there is none, returns the oldest
/// operation that the blockers seem to have finished and that is missing on no rank: a blocker's
/// snapshot may be older than the operation, or its last messages may not have left it. Pure. A
/// submitted operation counts as a wait, a gradient only while its bucket is exchanged. `missing`:
/// the blockers that have not submitted it; may be empty.
std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& blockers);

/// Whether `rank` waits in `missing` and is blocked. A rank that has marked a gradient continues to
/// compute until the exchange of the gradient's bucket. Pure.
bool is_blocked_in(const MissingOperation& missing, const RankSnapshot& rank);

/// "rank 3", "ranks 0-2 and 5".
std::string format_ranks(std::vector<int> ranks);
/// The ranks at the beginning of `text`, in the format of format_ranks(); empty if there are none.
std::vector<int> ranks_named_first(std::string_view text);

}  // namespace horo::observe
