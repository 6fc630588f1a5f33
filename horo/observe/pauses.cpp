#include "horo/observe/pauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "horo/observe/missing_operations.h"
#include "horo/observe/rank_words.h"

namespace horo::observe {
namespace {

struct Pause {
  std::vector<int> numbers;
  WallTime since = 0;  // of the first of them
};

std::string describe_waits(std::span<const RankSnapshot> ranks, const std::vector<int>& numbers,
                           WallTime now) {
  const auto awaited = find_awaited(ranks, numbers);
  if (!awaited) return "nobody waits for " + std::string(numbers.size() == 1 ? "it" : "them");
  return fmt::format("{} waited {} for '{}'", with_verb(awaited->waiting, "has", "have"),
                     name_age(now - awaited->since), awaited->operation.name);
}

}  // namespace

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
        name, name_age(now - callback.since), is_one ? "its" : "their");
  }
  return text;
}

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
    text += fmt::format("{}{} {} been in pause '{}' for {}; {}", text.empty() ? "" : "; ",
                        describe_ranks(pause.numbers, ranks),
                        pause.numbers.size() == 1 ? "has" : "have", name,
                        name_age(now - pause.since), describe_waits(ranks, pause.numbers, now));
  }
  return text;
}

}  // namespace horo::observe
