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
/// has not submitted. Pure. The oldest operation comes first. Joins come last, because whatever
/// blocks a join also blocks other operations. The rules:
///
///   - A named operation that has started on any rank was submitted on all ranks.
///   - A gradient is not missing on a rank that is ahead of all ranks that wait for it.
///   - On a rank that has called join(), no other named operation than a join or a shutdown is
///     missing.
///   - The name of a process set lists the members. If it does not, the members are the ranks that
///     have open operations of the set.
///   - On a rank with unlisted operations, no named operation is missing.
///   - If a rank waits in MPI_Finalize, that call is missing on every rank that has not called
///     MPI_Finalize and has not left the job.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age);

/// Returns the oldest open operation that was submitted more than `age` before `now`, if all
/// snapshots prove that every rank has submitted it. In the result, `missing` has the ranks that
/// have finished the operation already.
std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age);

/// Returns the oldest operation in which ranks other than the `blockers` wait for a blocker. A
/// blocker has not submitted this operation, or the operation is open on the blocker too. If there
/// is no such operation, returns the oldest operation that a blocker seems to have finished and
/// that is missing on no rank. The snapshot of the blocker may be older than that operation, or the
/// last messages of the blocker may not have arrived. Pure. A rank waits in each operation that it
/// has submitted, but in a gradient only while the bucket of the gradient is exchanged. In the
/// result, `missing` has the blockers that have not submitted the operation, and may be empty.
std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& blockers);

/// Whether `rank` waits in `missing` and is blocked. A rank that has marked a gradient continues to
/// compute until the exchange of the gradient's bucket. Pure.
bool is_blocked_in(const MissingOperation& missing, const RankSnapshot& rank);

/// "rank 3", "ranks 0-2 and 5".
std::string format_ranks(std::vector<int> ranks);
/// Returns the ranks that `text` names at its beginning, in the format of format_ranks(). Empty if
/// there are none.
std::vector<int> ranks_named_first(std::string_view text);

}  // namespace horo::observe
