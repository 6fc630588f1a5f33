#include "horo/diagnosis/rank_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "horo/base/text/quantity.h"
#include "horo/diagnosis/missing_operations.h"

namespace horo::observe {
namespace {

constexpr std::size_t kMaxDetailedRanks = 4;

const RankSnapshot* find(int number, std::span<const RankSnapshot> ranks) {
  const auto found = std::ranges::find(ranks, number, &RankSnapshot::rank);
  return found == ranks.end() ? nullptr : &*found;
}

struct HostRanks {
  std::string host;
  std::vector<std::int64_t> pids;
};

std::string describe(const HostRanks& host) {
  if (host.pids.empty()) return fmt::format("host {}", host.host);
  return fmt::format("host {}, pid{} {}", host.host, host.pids.size() == 1 ? "" : "s",
                     fmt::join(host.pids, ", "));
}

/// Ranks with the same last operation, phase and callback.
struct Past {
  std::string finished, phase, callback;
  // The earliest times of these ranks.
  WallTime finished_at = 0, phase_since = 0, callback_since = 0;
  std::vector<int> numbers;

  bool matches(const RankSnapshot& rank) const {
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
  std::string text = past.finished.empty()
                         ? past.numbers.size() == 1 ? std::string("has finished nothing")
                                                    : std::string("have finished nothing")
                         : fmt::format("last finished '{}' {} ago", past.finished,
                                       format_nanoseconds(now - past.finished_at));
  if (!past.phase.empty())
    text += fmt::format(", in phase '{}' for {}", past.phase,
                        format_nanoseconds(now - past.phase_since));
  if (!past.callback.empty())
    text += fmt::format(", in the completion callback of '{}' for {}", past.callback,
                        format_nanoseconds(now - past.callback_since));
  return text;
}

struct Pause {
  std::vector<int> numbers;
  WallTime since = 0;  // the earliest start on any of the ranks
};

std::string describe_waits(std::span<const RankSnapshot> ranks, const std::vector<int>& numbers,
                           WallTime now) {
  const auto awaited = find_awaited(ranks, numbers);
  if (!awaited) return "no rank waits for " + std::string(numbers.size() == 1 ? "it" : "them");
  return fmt::format("{} waited {} for '{}'", with_verb(awaited->waiting, "has", "have"),
                     format_nanoseconds(now - awaited->since), awaited->operation.name);
}

}  // namespace

// Gives the hosts and pids of only a few ranks, and names each host once.
std::string describe_ranks(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks) {
  std::vector<HostRanks> hosts;
  for (const int number : std::span(numbers).first(std::min(numbers.size(), kMaxDetailedRanks))) {
    const RankSnapshot* rank = find(number, ranks);
    if (rank == nullptr) continue;
    auto host = std::ranges::find(hosts, rank->host, &HostRanks::host);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {rank->host, {}});
    if (rank->pid != 0) host->pids.push_back(rank->pid);
  }
  std::vector<std::string> texts;
  for (const HostRanks& host : hosts) texts.push_back(describe(host));
  if (texts.empty()) return format_ranks(numbers);
  if (numbers.size() > kMaxDetailedRanks)
    texts.push_back(fmt::format("and {} more", numbers.size() - kMaxDetailedRanks));
  return fmt::format("{} ({})", format_ranks(numbers), fmt::join(texts, "; "));
}

// Ranks with the same last activity share one text, so that a verdict about many ranks stays short.
std::string describe_past(const std::vector<int>& numbers, std::span<const RankSnapshot> ranks,
                          WallTime now) {
  std::vector<Past> pasts;
  for (const int number : numbers) {
    const RankSnapshot* rank = find(number, ranks);
    if (rank == nullptr || rank->pid == 0) continue;
    auto past =
        std::ranges::find_if(pasts, [&](const Past& other) { return other.matches(*rank); });
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
  for (const Past& past : std::span(pasts).first(std::min(pasts.size(), kMaxDetailedRanks)))
    texts.push_back(format_ranks(past.numbers) + " " + describe(past, now));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string with_verb(const std::vector<int>& numbers, const char* singular, const char* plural) {
  return format_ranks(numbers) + " " + (numbers.size() == 1 ? singular : plural);
}

std::string describe_callbacks(std::span<const RankSnapshot> ranks, WallTime now,
                               std::chrono::nanoseconds lasting) {
  std::map<std::string, Pause> callbacks;
  for (const RankSnapshot& rank : ranks) {
    const bool may_run = rank.liveness == Liveness::kRunning || rank.liveness == Liveness::kEnded;
    if (rank.callback.empty() || !may_run || now - rank.callback_since < lasting.count()) continue;
    Pause& callback =
        callbacks.try_emplace(rank.callback, Pause{{}, rank.callback_since}).first->second;
    callback.since = std::min(callback.since, rank.callback_since);
    callback.numbers.push_back(rank.rank);
  }
  std::string text;
  for (auto& [name, callback] : callbacks) {
    std::ranges::sort(callback.numbers);
    const bool is_one = callback.numbers.size() == 1;
    text += fmt::format(
        "{}{} {} been in the completion callback of '{}' for {}: {} other "
        "operations wait for its return",
        text.empty() ? "" : "; ", describe_ranks(callback.numbers, ranks), is_one ? "has" : "have",
        name, format_nanoseconds(now - callback.since), is_one ? "its" : "their");
  }
  return text;
}

// Ranks in a pause with the same name share one text, so that a checkpoint on all ranks gives one
// line.
std::string describe_pauses(std::span<const RankSnapshot> ranks, WallTime now,
                            std::chrono::nanoseconds lasting) {
  std::map<std::string, Pause> pauses;
  for (const RankSnapshot& rank : ranks) {
    if (rank.pause.empty() || rank.liveness != Liveness::kRunning) continue;
    if (now - rank.pause_since < lasting.count()) continue;
    Pause& pause = pauses.try_emplace(rank.pause, Pause{{}, rank.pause_since}).first->second;
    pause.since = std::min(pause.since, rank.pause_since);
    pause.numbers.push_back(rank.rank);
  }
  std::string text;
  for (auto& [name, pause] : pauses) {
    std::ranges::sort(pause.numbers);
    text += fmt::format(
        "{}{} {} been in pause '{}' for {}; {}", text.empty() ? "" : "; ",
        describe_ranks(pause.numbers, ranks), pause.numbers.size() == 1 ? "has" : "have", name,
        format_nanoseconds(now - pause.since), describe_waits(ranks, pause.numbers, now));
  }
  return text;
}

}  // namespace horo::observe
