#include "horo/observe/missing_operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "horo/observe/flight_file.h"

namespace horo::observe {
namespace {

struct OpenSomewhere {
  OpenOperation operation;
  WallTime since = 0;
  std::vector<const RankSnapshot*> waiting;
  bool has_started = false;
};

bool is_join(const OpenSomewhere& open) { return open.operation.kind == kJoinKind; }

// What is open anywhere, the oldest first.
std::vector<OpenSomewhere> collect(std::span<const RankSnapshot> ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> place_of;
  std::vector<OpenSomewhere> found;
  for (const RankSnapshot& rank : ranks) {
    for (const OpenOperation& open : rank.open) {
      const auto [place, is_new] =
          place_of.try_emplace({open.process_set, open.name}, found.size());
      if (is_new) found.push_back({open, open.submitted, {}, false});
      OpenSomewhere& entry = found[place->second];
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

// Whether the rank may be in the operation although its picture does not list it.
bool may_be_unlisted(const RankSnapshot& rank, const OpenSomewhere& open) {
  return rank.unlisted > 0 && !is_of_plan(open.operation) && !is_waiting_in(rank, open) &&
         is_member(rank, open.operation.process_set);
}

// Only what is proven: a rank that has unlisted operations may have submitted any.
bool is_missing_on(const RankSnapshot& rank, const OpenSomewhere& open) {
  if (is_waiting_in(rank, open) || may_be_unlisted(rank, open)) return false;
  if (!is_member(rank, open.operation.process_set)) return false;
  // A rank that has left is through with it.
  if (open.operation.kind == kFinalizeKind) return rank.liveness != Liveness::kEnded;
  if (!is_of_plan(open.operation)) {
    const bool needs_everyone =
        open.operation.kind == kJoinKind || open.operation.kind == kShutdownKind;
    return !open.has_started && (needs_everyone || !has_joined(rank, open.operation.process_set));
  }
  return std::any_of(open.waiting.begin(), open.waiting.end(), [&](const RankSnapshot* waiting) {
    return rank.finished <= waiting->finished;
  });
}

std::vector<int> numbers_of(const std::vector<const RankSnapshot*>& ranks) {
  std::vector<int> numbers;
  for (const RankSnapshot* rank : ranks) numbers.push_back(rank->rank);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<int> others_than(const OpenSomewhere& open, std::span<const RankSnapshot> ranks,
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

// What is left of it of the ranks other than `keepers` that wait with it.
OpenSomewhere waits_of_others(const OpenSomewhere& open, const std::vector<int>& keepers) {
  OpenSomewhere left{open.operation, 0, {}, open.has_started};
  for (const RankSnapshot* rank : open.waiting) {
    if (is_any_of(keepers, rank->rank)) continue;
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

bool is_of_same_ranks(const MissingOperation& a, const MissingOperation& b) {
  return a.operation.kind == b.operation.kind &&
         a.operation.process_set == b.operation.process_set && a.waiting == b.waiting &&
         a.missing == b.missing;
}

}  // namespace

std::vector<MissingOperation> find_missing(std::span<const RankSnapshot> ranks, WallTime now,
                                           std::chrono::nanoseconds age) {
  std::vector<MissingOperation> found;
  for (const OpenSomewhere& open : collect(ranks)) {
    if (now - open.since <= age.count()) continue;
    MissingOperation missing{open.operation, open.since, numbers_of(open.waiting),
                             others_than(open, ranks, true), 0};
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
    if (now - open.since <= age.count() || !others_than(open, ranks, true).empty()) continue;
    if (std::ranges::any_of(ranks, [&](const auto& rank) { return may_be_unlisted(rank, open); }))
      continue;
    return {
        {open.operation, open.since, numbers_of(open.waiting), others_than(open, ranks, false), 0}};
  }
  return {};
}

std::optional<MissingOperation> find_awaited(std::span<const RankSnapshot> ranks,
                                             const std::vector<int>& keepers) {
  std::optional<MissingOperation> oldest;
  for (const OpenSomewhere& open : collect(ranks)) {
    const OpenSomewhere left = waits_of_others(open, keepers);
    if (left.waiting.empty()) continue;
    MissingOperation found{left.operation, left.since, numbers_of(left.waiting), {}, 0};
    bool is_kept = false;
    for (const RankSnapshot& rank : ranks) {
      if (!is_any_of(keepers, rank.rank)) continue;
      const bool is_missing = is_missing_on(rank, open);
      if (is_missing) found.missing.push_back(rank.rank);
      is_kept |= is_missing || is_waiting_in(rank, open) || may_be_unlisted(rank, open);
    }
    std::ranges::sort(found.missing);
    if (!is_kept) continue;
    if (!oldest)
      oldest = std::move(found);
    else if (is_of_same_ranks(*oldest, found))
      ++oldest->others;
  }
  return oldest;
}

bool is_of_plan(const OpenOperation& operation) {
  return operation.kind == kGradientKind || operation.kind == kBucketKind;
}

std::string name_ranks(std::vector<int> ranks) {
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
  constexpr int kMost = 1 << 20;  // of a damaged text
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

std::string name_age(std::int64_t nanoseconds) {
  const double seconds = std::max(0.0, static_cast<double>(nanoseconds) * 1e-9);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace horo::observe
