#include "horo/observe/rank_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "horo/observe/missing_operations.h"

namespace horo::observe {
namespace {

constexpr std::size_t kMostToldOneByOne = 4;

const RankSnapshot* find(int number, std::span<const RankSnapshot> ranks) {
  const auto found = std::ranges::find(ranks, number, &RankSnapshot::rank);
  return found == ranks.end() ? nullptr : &*found;
}

struct Place {
  std::string host;
  std::vector<std::int64_t> pids;
};

std::string describe(const Place& place) {
  if (place.pids.empty()) return fmt::format("host {}", place.host);
  return fmt::format("host {}, pid{} {}", place.host, place.pids.size() == 1 ? "" : "s",
                     fmt::join(place.pids, ", "));
}

/// Ranks that did the same last.
struct Past {
  std::string finished, phase, callback;
  // Of the rank for which it is the longest ago.
  WallTime finished_at = 0, phase_since = 0, callback_since = 0;
  std::vector<int> numbers;

  bool is_of(const RankSnapshot& rank) const {
    return finished == rank.last_finished && phase == rank.phase && callback == rank.callback;
  }
  void add(const RankSnapshot& rank) {
    finished_at = std::min(finished_at, rank.last_finished_at);
    phase_since = std::min(phase_since, rank.phase_since);
    callback_since = std::min(callback_since, rank.callback_since);
    numbers.push_back(rank.rank);
  }
};

std::string describe(const Past& past, WallTime now) {
  std::string text = past.finished.empty() ? past.numbers.size() == 1
                                                 ? std::string("has finished nothing")
                                                 : std::string("have finished nothing")
                                           : fmt::format("last finished '{}' {} ago", past.finished,
                                                         name_age(now - past.finished_at));
  if (!past.phase.empty())
    text += fmt::format(", in phase '{}' for {}", past.phase, name_age(now - past.phase_since));
  if (!past.callback.empty())
    text += fmt::format(", in the completion callback of '{}' for {}", past.callback,
                        name_age(now - past.callback_since));
  return text;
}

}  // namespace

std::string describe_ranks(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks) {
  std::vector<Place> places;
  for (const int number : std::span(numbers).first(std::min(numbers.size(), kMostToldOneByOne))) {
    const RankSnapshot* rank = find(number, ranks);
    if (rank == nullptr) continue;
    auto place = std::ranges::find(places, rank->host, &Place::host);
    if (place == places.end()) place = places.insert(places.end(), {rank->host, {}});
    if (rank->pid != 0) place->pids.push_back(rank->pid);
  }
  std::vector<std::string> texts;
  for (const Place& place : places) texts.push_back(describe(place));
  if (texts.empty()) return name_ranks(numbers);
  if (numbers.size() > kMostToldOneByOne)
    texts.push_back(fmt::format("and {} more", numbers.size() - kMostToldOneByOne));
  return fmt::format("{} ({})", name_ranks(numbers), fmt::join(texts, "; "));
}

std::string describe_past(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks,
                          WallTime now) {
  std::vector<Past> pasts;
  for (const int number : numbers) {
    const RankSnapshot* rank = find(number, ranks);
    if (rank == nullptr || rank->pid == 0) continue;
    auto past = std::ranges::find_if(pasts, [&](const Past& other) { return other.is_of(*rank); });
    if (past == pasts.end())
      past = pasts.insert(pasts.end(), {rank->last_finished,
                                        rank->phase,
                                        rank->callback,
                                        rank->last_finished_at,
                                        rank->phase_since,
                                        rank->callback_since,
                                        {}});
    past->add(*rank);
  }
  if (numbers.size() == 1) return pasts.empty() ? "" : "it " + describe(pasts[0], now);
  std::vector<std::string> texts;
  for (const Past& past : std::span(pasts).first(std::min(pasts.size(), kMostToldOneByOne)))
    texts.push_back(name_ranks(past.numbers) + " " + describe(past, now));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string with_verb(const std::vector<int>& numbers, const char* singular, const char* plural) {
  return name_ranks(numbers) + " " + (numbers.size() == 1 ? singular : plural);
}

}  // namespace horo::observe
