#include "horo/diagnosis/first_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "horo/base/wait.h"
#include "horo/diagnosis/missing_operations.h"

namespace horo::observe {
namespace {

// Failure texts name ranks in the format of Topology::describe() and describe_ranks(): "rank 3
// (host b".
std::string name_in_texts(const RankSnapshot& rank) { return fmt::format("rank {} (", rank.rank); }

bool is_named_in(const std::string& failure, const RankSnapshot& other) {
  return failure.find(name_in_texts(other)) != std::string::npos;
}

// A failure is not the rank's own if it is the text of the abort signal or was propagated from
// another node. Such a text begins with the names of the blamed ranks, which may include this rank.
bool has_own_failure(const RankSnapshot& rank) {
  if (rank.failure.empty() || rank.is_aborted) return false;
  const std::vector<int> named = ranks_named_first(rank.failure);
  return named.empty() || named == std::vector<int>{rank.rank};
}

// Whether the failure states that the other rank has left. The coordinator writes "... rank 1 (host
// b) has shut down ...". A plan writes "... has left ...".
bool is_departed_in(const std::string& failure, const RankSnapshot& other) {
  const std::size_t name = failure.find(name_in_texts(other));
  if (name == std::string::npos) return false;
  const std::size_t end = failure.find(')', name);
  if (end == std::string::npos) return false;
  const std::string_view predicate = std::string_view(failure).substr(end + 1);
  return predicate.starts_with(" has shut down") || predicate.starts_with(" has left");
}

// Whether the failure of `rank` is a consequence of `other`. A rank may leave a process set or a
// plan and fail later, while it unwinds its stack. A failure whose text names that departure is
// then a consequence, even if it was recorded earlier.
bool follows_from(const RankSnapshot& rank, const RankSnapshot& other) {
  if (&rank == &other || !is_named_in(rank.failure, other)) return false;
  if (has_own_failure(other)) {
    const bool has_left_first =
        is_departed_in(rank.failure, other) && !is_departed_in(other.failure, rank);
    return has_left_first || other.taken < rank.taken;
  }
  return other.failure.empty() && other.liveness == Liveness::kDead &&
         other.last_sign_of_life <= rank.taken;
}

using Deaths = std::vector<const RankSnapshot*>;

// A launcher is assumed to kill the remaining ranks within this time after the first death, in ns.
constexpr WallTime kShutdownSpread = 2'000'000'000;

// A rank that died after another rank had failed did not cause that failure. If a timeout aborted
// the job, the dead ranks were probably alive at the timeout, because a watchdog aborts the job at
// once if a rank is dead. The launcher killed them later, also those that were stopped. Only a rank
// that the launcher names may have died before the timeout.
void drop_deaths_after_failures(Deaths& dead, std::span<const RankSnapshot> ranks) {
  const FirstFailure failure = find_first_failure(ranks);
  const RankSnapshot* first = failure.rank != nullptr ? failure.rank : failure.propagated;
  if (first == nullptr) return;
  const bool is_timeout = first->is_aborted && names_timeout(first->failure);
  // If the launcher names a rank that failed, all other ranks ended after that rank. Still, the
  // last heartbeat of another rank may be older than the failure.
  const bool is_named = std::ranges::any_of(ranks, [](const RankSnapshot& rank) {
    return !rank.ending.empty() && !rank.failure.empty();
  });
  const WallTime since = is_named ? first->taken - kShutdownSpread : first->taken;
  std::erase_if(dead, [&](const RankSnapshot* rank) {
    return rank->last_sign_of_life > since || (is_timeout && rank->ending.empty());
  });
}

// The launcher names the rank that ended first, and kills the other ranks. Another rank is assumed
// to have died earlier only if its last heartbeat is older than that of the named rank by more than
// kShutdownSpread.
void drop_deaths_beside_named(Deaths& dead) {
  const auto named =
      std::ranges::find_if(dead, [](const RankSnapshot* rank) { return !rank->ending.empty(); });
  if (named == dead.end()) return;
  const WallTime before = (*named)->last_sign_of_life - kShutdownSpread;
  std::erase_if(dead, [&](const RankSnapshot* rank) {
    return rank->ending.empty() && rank->last_sign_of_life > before;
  });
}

// Called if every rank is dead. Only ranks whose last heartbeat is older than the latest one by
// more than kShutdownSpread are causes.
void drop_simultaneous_deaths(Deaths& dead) {
  WallTime last = 0;
  for (const RankSnapshot* rank : dead) last = std::max(last, rank->last_sign_of_life);
  std::erase_if(dead, [&](const RankSnapshot* rank) {
    return rank->last_sign_of_life + kShutdownSpread > last;
  });
}

// After the first death, a launcher terminates the remaining ranks, and kills those that do not
// exit in time. So a dead rank that waited for another dead rank is not a cause, unless the
// launcher names the waiting rank as the first to end.
void drop_victims(Deaths& dead, std::span<const RankSnapshot> ranks, WallTime now) {
  for (const MissingOperation& missing : find_missing(ranks, now, {})) {
    const bool is_due_to_death = std::ranges::any_of(dead, [&](const RankSnapshot* rank) {
      return std::ranges::find(missing.missing, rank->rank) != missing.missing.end();
    });
    if (is_due_to_death)
      std::erase_if(dead, [&](const RankSnapshot* rank) {
        return rank->ending.empty() && is_blocked_in(missing, *rank);
      });
  }
}

}  // namespace

FirstFailure find_first_failure(std::span<const RankSnapshot> ranks) {
  FirstFailure first;
  for (const RankSnapshot& rank : ranks) {
    if (rank.failure.empty()) continue;
    if (!has_own_failure(rank)) {
      if (first.propagated == nullptr || rank.taken < first.propagated->taken)
        first.propagated = &rank;
      continue;
    }
    bool is_consequence = false;
    for (const RankSnapshot& other : ranks) is_consequence |= follows_from(rank, other);
    if (is_consequence) continue;
    ++first.count;
    if (first.rank == nullptr || rank.taken < first.rank->taken) first.rank = &rank;
  }
  if (first.rank == nullptr) return first;
  for (const RankSnapshot& other : ranks)
    if (&other != first.rank && !has_own_failure(other) &&
        is_departed_in(first.rank->failure, other))
      first.departed = &other;
  return first;
}

std::string failure_without_rank(const RankSnapshot& rank) {
  const std::string_view text = rank.failure;
  const std::size_t end = text.find(") ");
  if (text.starts_with(name_in_texts(rank)) && end != std::string_view::npos)
    return std::string(text.substr(end + 2));
  return fmt::format("failed: {}", text);
}

// Starts with all dead ranks and removes those whose death has another explanation. Each step
// examines only the ranks that the previous steps have left.
std::vector<int> find_causal_deaths(std::span<const RankSnapshot> ranks, WallTime now) {
  Deaths dead;
  for (const RankSnapshot& rank : ranks)
    if (rank.liveness == Liveness::kDead && rank.failure.empty()) dead.push_back(&rank);
  drop_deaths_after_failures(dead, ranks);
  drop_deaths_beside_named(dead);
  if (dead.size() == ranks.size() && dead.size() > 1) drop_simultaneous_deaths(dead);
  drop_victims(dead, ranks, now);
  std::vector<int> numbers;
  for (const RankSnapshot* rank : dead) numbers.push_back(rank->rank);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace horo::observe
