#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The failure that came first and caused the others.
struct FirstFailure {
  /// The rank that first failed for its own reason. Null if there is none. Points into the
  /// argument.
  const RankSnapshot* rank = nullptr;
  /// The rank whose departure from the job, a process set or a plan caused that failure. Null if
  /// there is none.
  const RankSnapshot* departed = nullptr;
  /// The first rank that failed for another rank's reason. Null if there is none.
  const RankSnapshot* propagated = nullptr;
  std::size_t count = 0;  ///< number of ranks that failed for their own reason
};

/// Finds the first failure. Pure. A failure is not the rank's own if the rank was aborted, or if
/// the text begins with another rank. A rank's own failure is ignored if its text names another
/// rank that failed earlier, that had left the job before the failure, or that has died. The first
/// failure is the earliest of the remaining failures.
FirstFailure find_first_failure(std::span<const RankSnapshot> ranks);

/// The failure as the predicate of a sentence about the rank, without the rank's own name: "failed
/// with an exception", "failed: out of memory".
std::string failure_without_rank(const RankSnapshot& rank);

/// Returns the numbers, ascending, of the dead ranks whose death may have stopped the job. Leaves
/// out ranks that died after another rank had failed, that the launcher killed after the first
/// death, or that died while they waited for another dead rank. If a job has several ranks and all
/// died at about the same time, none of them is a cause. Pure.
std::vector<int> find_causal_deaths(std::span<const RankSnapshot> ranks, WallTime now);

}  // namespace horo::observe
