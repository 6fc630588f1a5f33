#include "horo/diagnosis/missing_operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {
namespace {

struct OpenSomewhere {
  OpenOperation operation;
  WallTime since = 0;
  std::vector<const RankSnapshot*> waiting;
  bool has_started = false;
};

bool is_join(const OpenSomewhere& open) { return open.operation.kind == kJoinKind; }

// Returns all operations that are open on any rank: joins last, the others oldest first.
std::vector<OpenSomewhere> collect(std::span<const RankSnapshot> ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> index_of;
  std::vector<OpenSomewhere> found;
  for (const RankSnapshot& rank : ranks) {
    for (const OpenOperation& open : rank.open) {
      const auto [index, is_new] =
          index_of.try_emplace({open.process_set, open.name}, found.size());
      if (is_new) found.push_back({open, open.submitted, {}, false});
      OpenSomewhere& entry = found[index->second];
      entry.since = std::min(entry.since, open.submitted);
      entry.has_started |= open.started != 0;
      if (entry.waiting.empty() || entry.waiting.back() != &rank) entry.waiting.push_back(&rank);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const OpenSomewhere& a, const OpenSomewhere& b) {
    return is_join(a) != is_join(b) ? is_join(b) : a.since < b.since;
  });
  return found;
}

bool is_member(const RankSnapshot& rank, const std::string& process_set) {
  if (process_set.empty()) return true;
  if (const auto members = members_of(process_set))
    return std::find(members->begin(), members->end(), rank.rank) != members->end();
  return std::any_of(rank.open.begin(), rank.open.end(),
                     [&](const OpenOperation& open) { return open.process_set == process_set; });
}

bool has_joined(const RankSnapshot& rank, const std::string& process_set) {
  return std::any_of(rank.open.begin(), rank.open.end(), [&](const OpenOperation& open) {
    return open.kind == kJoinKind && open.process_set == process_set;
  });
}

bool is_waiting_in(const RankSnapshot& rank, const OpenSomewhere& open) {
  return std::ranges::find(open.waiting, &rank) != open.waiting.end();
}

// Whether the rank may have submitted the operation although its snapshot does not list it.
bool may_be_unlisted(const RankSnapshot& rank, const OpenSomewhere& open) {
  return rank.unlisted > 0 && !is_of_plan(open.operation) && !is_waiting_in(rank, open) &&
         is_member(rank, open.operation.process_set);
}

const PlanPosition* find_position(const RankSnapshot& rank, std::uint64_t plan) {
  const auto found = std::ranges::find(rank.plans, plan, &PlanPosition::plan);
  return found == rank.plans.end() ? nullptr : &*found;
}

// Whether the rank has exchanged more buckets of the plan than `waiting`. If a position is unknown,
// whether the rank has finished more operations than `waiting`.
bool is_ahead_of(const RankSnapshot& rank, const RankSnapshot& waiting, std::uint64_t plan) {
  const PlanPosition* own = find_position(rank, plan);
  const PlanPosition* other = find_position(waiting, plan);
  if (own != nullptr && other != nullptr) return own->buckets > other->buckets;
  return rank.finished > waiting.finished;
}

// Implements the rules of find_missing(). A rank with unlisted operations may have submitted any
// named operation, so none is missing on that rank.
bool is_missing_on(const RankSnapshot& rank, const OpenSomewhere& open) {
  if (is_waiting_in(rank, open) || may_be_unlisted(rank, open)) return false;
  if (!is_member(rank, open.operation.process_set)) return false;
  // A rank that has left the job (kEnded) counts as a rank that has called MPI_Finalize.
  if (open.operation.kind == kFinalizeKind) return rank.liveness != Liveness::kEnded;
  if (!is_of_plan(open.operation)) {
    const bool needs_everyone =
        open.operation.kind == kJoinKind || open.operation.kind == kShutdownKind;
    return !open.has_started && (needs_everyone || !has_joined(rank, open.operation.process_set));
  }
  return std::any_of(open.waiting.begin(), open.waiting.end(), [&](const RankSnapshot* waiting) {
    return !is_ahead_of(rank, *waiting, open.operation.plan);
  });
}

std::vector<int> numbers_of(const std::vector<const RankSnapshot*>& ranks) {
  std::vector<int> numbers;
  for (const RankSnapshot* rank : ranks) numbers.push_back(rank->rank);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<int> ranks_outside(const OpenSomewhere& open, std::span<const RankSnapshot> ranks,
                               bool only_missing) {
  std::vector<const RankSnapshot*> others;
  for (const RankSnapshot& rank : ranks) {
    const bool is_other = !is_waiting_in(rank, open) && is_member(rank, open.operation.process_set);
    if (only_missing ? is_missing_on(rank, open) : is_other) others.push_back(&rank);
  }
  return numbers_of(others);
}

bool is_any_of(const std::vector<int>& numbers, int number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

// Returns the operation with only those ranks that wait in it and are not `blockers`, and with the
// start of their wait.
OpenSomewhere waits_of_others(const OpenSomewhere& open, const std::vector<int>& blockers) {
  OpenSomewhere left{open.operation, 0, {}, open.has_started};
  for (const RankSnapshot* rank : open.waiting) {
    if (is_any_of(blockers, rank->rank)) continue;
    for (const OpenOperation& own : rank->open) {
      if (own.name != open.operation.name || own.process_set != open.operation.process_set)
        continue;
      if (own.kind == kGradientKind && own.started == 0) continue;
      left.since = left.waiting.empty() ? own.submitted : std::min(left.since, own.submitted);
      left.waiting.push_back(rank);
      break;
    }
  }
  return left;
}

// Whether a blocker seems to have finished the operation. This is so if a blocker is a member of
// its process set, the operation is no join, and it is missing on no rank. Requires that the
// operation is open on no blocker.
bool is_finished_by_blockers(const OpenSomewhere& open, std::span<const RankSnapshot> ranks,
                             const std::vector<int>& blockers) {
  const bool is_finished = std::ranges::any_of(ranks, [&](const RankSnapshot& rank) {
    return is_any_of(blockers, rank.rank) && is_member(rank, open.operation.process_set);
  });
  return is_finished && !is_join(open) && ranks_outside(open, ranks, true).empty();
}

bool is_of_same_ranks(const MissingOperation& a, const MissingOperation& b) {
  return a.operation.kind == b.operation.kind &&
         a.operation.process_set == b.operation.process_set && a.waiting == b.waiting &&
         a.missing == b.missing;
}

}  // namespace

// Operations with the same waiting and missing ranks are merged into one entry, so that hundreds of
// gradients give one line.
std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age) {
  std::vector<MissingOperation> found;
  for (const OpenSomewhere& open : collect(ranks)) {
    if (now - open.since <= age.count()) continue;
    MissingOperation missing{open.operation, open.since, numbers_of(open.waiting),
                             ranks_outside(open, ranks, true), 0};
    if (missing.missing.empty()) continue;
    const auto same = std::find_if(found.begin(), found.end(), [&](const MissingOperation& other) {
      return is_of_same_ranks(other, missing);
    });
    if (same != found.end())
      ++same->others;
    else
      found.push_back(std::move(missing));
  }
  return found;
}

std::vector<MissingOperation> find_unfinished(std::span<const RankSnapshot> ranks, WallTime now,
                                              std::chrono::nanoseconds age) {
  for (const OpenSomewhere& open : collect(ranks)) {
    if (now - open.since <= age.count() || !ranks_outside(open, ranks, true).empty()) continue;
    if (std::ranges::any_of(ranks, [&](const auto& rank) { return may_be_unlisted(rank, open); }))
      continue;
    return {{open.operation, open.since, numbers_of(open.waiting),
             ranks_outside(open, ranks, false), 0}};
  }
  return {};
}

std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& blockers) {
  std::optional<MissingOperation> oldest, finished;
  for (const OpenSomewhere& open : collect(ranks)) {
    const OpenSomewhere left = waits_of_others(open, blockers);
    if (left.waiting.empty()) continue;
    MissingOperation found{left.operation, left.since, numbers_of(left.waiting), {}, 0};
    bool is_blocked = false;
    for (const RankSnapshot& rank : ranks) {
      if (!is_any_of(blockers, rank.rank)) continue;
      const bool is_missing = is_missing_on(rank, open);
      if (is_missing) found.missing.push_back(rank.rank);
      is_blocked |= is_missing || is_waiting_in(rank, open) || may_be_unlisted(rank, open);
    }
    std::ranges::sort(found.missing);
    if (!is_blocked) {
      if (!finished && is_finished_by_blockers(open, ranks, blockers)) finished = std::move(found);
      continue;
    }
    if (!oldest)
      oldest = std::move(found);
    else if (is_of_same_ranks(*oldest, found))
      ++oldest->others;
  }
  return oldest ? oldest : finished;
}

bool is_blocked_in(const MissingOperation& missing, const RankSnapshot& rank) {
  if (!is_any_of(missing.waiting, rank.rank)) return false;
  return missing.operation.kind != kGradientKind ||
         std::ranges::any_of(rank.open, [&](const OpenOperation& operation) {
           return operation.name == missing.operation.name &&
                  operation.process_set == missing.operation.process_set && operation.started != 0;
         });
}

std::string format_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    parts.push_back(end - begin == 1 ? std::to_string(ranks[begin])
                                     : fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    begin = end;
  }
  const std::string word = ranks.size() == 1 ? "rank " : "ranks ";
  if (parts.size() < 2) return word + fmt::format("{}", fmt::join(parts, ""));
  const std::string last = parts.back();
  parts.pop_back();
  return word + fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

std::vector<int> ranks_named_first(std::string_view text) {
  const auto skip = [&](std::string_view mark) {
    if (!text.starts_with(mark)) return false;
    text.remove_prefix(mark.size());
    return true;
  };
  const auto take_number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    return value;
  };
  constexpr int kMost = 1 << 20;  // a limit for damaged texts
  std::vector<int> ranks;
  if (!skip("ranks ") && !skip("rank ")) return ranks;
  do {
    const auto first = take_number();
    const auto last = first && skip("-") ? take_number() : first;
    if (!first || !last || *first < 0 || *last > kMost) break;
    for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  } while (skip(", ") || skip(" and "));
  return ranks;
}

}  // namespace horo::observe
