#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// Which of several failures came first and caused the others.
struct FirstFailure {
  /// The rank that failed first for a reason of its own; null: none did. Points into the ranks.
  const RankSnapshot* rank = nullptr;
  /// The rank that had left the job, which is the reason of the failure; null: none.
  const RankSnapshot* departed = nullptr;
  /// The first of the ranks that failed for a reason that is not their own; null: none did.
  const RankSnapshot* passed_on = nullptr;
  std::size_t count = 0;  ///< ranks that failed for a reason of their own
};

/// A failure is not the rank's own if the rank gave up because of the abort signal, or if its text
/// begins with another rank. An own failure does not count if its text names another rank that
/// failed before it, or that has died. Of those that count the earliest is the first. Pure.
FirstFailure find_first_failure(std::span<const RankSnapshot> ranks);

/// The text with which a time-out ends a job, and whether a failure has it: "TEXT (HORO_TIMEOUT is
/// 5min)".
std::string with_timeout(std::string_view text, std::chrono::nanoseconds timeout);
bool names_timeout(std::string_view failure);

/// "failed with an exception", "failed: out of memory": the failure as the predicate of a sentence
/// about the rank, without the rank's own name.
std::string failure_without_rank(const RankSnapshot& rank);

}  // namespace horo::observe
