#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The failure that came first and is assumed to have caused the others.
struct FirstFailure {
  /// The rank with the first failure; see find_first_failure(). Null if there is none. All pointers
  /// point into the argument.
  const RankSnapshot* rank = nullptr;
  /// A rank without a failure of its own that, according to the text of that failure, has left the
  /// job, a process set or a plan. Null if there is none.
  const RankSnapshot* departed = nullptr;
  /// The first rank with a failure that is not its own. Null if there is none.
  const RankSnapshot* propagated = nullptr;
  std::size_t count = 0;  ///< number of own failures that are not ignored
};

/// Finds the first failure. Pure. A failure is not the rank's own if the rank was aborted, or if
/// the text begins with the names of other ranks. A rank's own failure is ignored if its text names
/// another rank that had failed or died before. It is also ignored if its text states that another
/// rank has left, and that rank failed later. The first failure is the earliest of the remaining
/// own failures.
FirstFailure find_first_failure(std::span<const RankSnapshot> ranks);

/// Returns the failure as the predicate of a sentence about the rank, without the rank's own name:
/// "failed with an exception", "failed: out of memory".
std::string failure_without_rank(const RankSnapshot& rank);

/// Returns the numbers, ascending, of the dead ranks without a failure whose death may have stopped
/// the job. Leaves out ranks that died after another rank had failed, that the launcher killed
/// after the first death, or that died while they waited for another dead rank. If a job has
/// several ranks and all died at about the same time, none of them is a cause. Pure.
std::vector<int> find_causal_deaths(std::span<const RankSnapshot> ranks, WallTime now);

}  // namespace horo::observe
