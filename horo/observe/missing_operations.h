#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/set_name.h"
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
/// oldest first, but joins last, as what keeps them is what keeps the others. A named operation
/// that has started anywhere was submitted everywhere. A gradient is not missing on a rank that is
/// ahead of all that wait for it. A rank that has joined misses nothing but joins and shutdowns.
/// Members of a process set are those that its name lists, or else the ranks that have operations
/// of the set open. On a rank that has unlisted operations no named operation is missing. Pure.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age);

/// The oldest operation that was submitted more than `age` before `now`, is open, and was submitted
/// everywhere as far as every rank's picture proves; `missing` is empty, or the ranks that are not
/// in it any more.
std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age);

/// The oldest operation in which ranks other than the `keepers` wait for one of them: one of these
/// has not submitted it, or has it open itself. A rank waits with what it has submitted, and with a
/// gradient while its bucket is exchanged. `missing`: the keepers that have not submitted it, may
/// be empty. Pure.
std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& keepers);

/// Whether the operation is one of a plan, to which a rank comes without any agreement.
bool is_of_plan(const OpenOperation& operation);

/// "rank 3", "ranks 0-2 and 5".
std::string name_ranks(std::vector<int> ranks);
/// The ranks with which `text` begins, named as name_ranks() does; empty if it names none.
std::vector<int> ranks_named_first(std::string_view text);
/// "350 ms", "1.2 s", "41 s", "12 min".
std::string name_age(std::int64_t nanoseconds);

}  // namespace horo::observe
