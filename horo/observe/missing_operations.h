#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// An operation that some ranks have submitted and others not.
struct MissingOperation {
  OpenOperation operation;   ///< as the first rank that waits has it
  WallTime since = 0;        ///< when the first of them submitted it
  std::vector<int> waiting;  ///< ascending
  std::vector<int> missing;  ///< ascending, not empty
  std::size_t others = 0;    ///< more operations of this kind with the same ranks
};

/// Operations that were submitted somewhere more than `age` before `now` and not everywhere, the
/// oldest first. A named operation that has started anywhere was submitted everywhere. A gradient
/// is not missing on a rank that is ahead of all that wait for it. Members of a process set are the
/// ranks that have operations of the set open. Pure.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age);

/// The oldest operation that was submitted more than `age` before `now`, is open, and is missing
/// nowhere; `missing` is empty, or the ranks that are not in it any more.
std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age);

/// "rank 3", "ranks 0-2 and 5".
std::string name_ranks(std::vector<int> ranks);
/// "350 ms", "1.2 s", "41 s", "12 min".
std::string name_age(std::int64_t nanoseconds);

}  // namespace horo::observe
