#pragma once

#include <string>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

inline constexpr WallTime kSecond = 1'000'000'000;

/// Rank `rank` on host "h<rank / 2>": running, without open operations.
inline RankSnapshot make_rank(int rank) {
  RankSnapshot snapshot;
  snapshot.rank = rank;
  snapshot.host = "h" + std::to_string(rank / 2);
  snapshot.pid = 1000 + rank;
  return snapshot;
}

inline RankSnapshot make_rank(int rank, const std::string& operation, WallTime submitted) {
  RankSnapshot snapshot = make_rank(rank);
  OpenOperation open;
  open.name = operation;
  open.kind = "allreduce";
  open.submitted = submitted;
  snapshot.open.push_back(open);
  return snapshot;
}

/// A snapshot in which every field has a value that depends on `seed`.
inline RankSnapshot full_snapshot(int seed) {
  RankSnapshot snapshot = make_rank(seed, "fc1.weight", 5 * kSecond + seed);
  snapshot.liveness = static_cast<Liveness>(seed % 5);
  snapshot.taken = 100 * kSecond + seed;
  snapshot.last_sign_of_life = 99 * kSecond + seed;
  snapshot.finished = 12345678901234ull + static_cast<std::uint64_t>(seed);
  snapshot.last_finished = "metric." + std::to_string(seed);
  snapshot.last_finished_at = 98 * kSecond;
  OpenOperation second;
  second.name = "gradients.0/bucket 3";
  second.kind = "bucket";
  second.process_set = "evens";
  second.bytes = 1ull << 33;
  second.submitted = 6 * kSecond;
  second.started = 7 * kSecond;
  second.plan = 17;
  snapshot.open.push_back(second);
  snapshot.unlisted = 90000 + static_cast<std::uint64_t>(seed);
  snapshot.plans = {{17, 1ull << 40}, {18, static_cast<std::uint64_t>(seed)}};
  snapshot.phase = "forward";
  snapshot.phase_since = 97 * kSecond;
  snapshot.pause = "checkpoint";
  snapshot.pause_since = 96 * kSecond;
  snapshot.callback = "loss";
  snapshot.callback_since = 95 * kSecond;
  snapshot.failure = "disk full";
  snapshot.is_aborted = seed % 2 == 1;
  snapshot.has_overdue_wait = seed % 3 == 1;
  snapshot.times = {3 * kSecond, 2 * kSecond + seed, {{"data", kSecond}, {"forward", seed}}, {}};
  snapshot.times.plans.push_back({"gradients.0", "", 4, 811, {5, 7, 11}});
  snapshot.times.plans.push_back({"gradients.0", "{0, 2}", 2, 3, {}});
  return snapshot;
}

/// Every field of a snapshot as text, for comparisons.
inline std::string text_of(const RankSnapshot& s) {
  std::string text =
      std::to_string(s.rank) + "|" + s.host + "|" + std::to_string(s.pid) + "|" +
      std::to_string(static_cast<int>(s.liveness)) + "|" + std::to_string(s.taken) + "|" +
      std::to_string(s.last_sign_of_life) + "|" + std::to_string(s.finished) + "|" +
      s.last_finished + "|" + std::to_string(s.last_finished_at) + "|" + s.phase + "|" +
      std::to_string(s.phase_since) + "|" + s.pause + "|" + std::to_string(s.pause_since) + "|" +
      s.callback + "|" + std::to_string(s.callback_since) + "|" + s.failure + "|" +
      std::to_string(s.unlisted) + "|" + std::to_string(static_cast<int>(s.is_aborted)) + "|" +
      std::to_string(static_cast<int>(s.has_overdue_wait));
  for (const OpenOperation& open : s.open)
    text += "|" + open.name + "," + open.kind + "," + open.process_set + "," +
            std::to_string(open.bytes) + "," + std::to_string(open.submitted) + "," +
            std::to_string(open.started) + "," + std::to_string(open.plan);
  for (const PlanPosition& position : s.plans)
    text += "|" + std::to_string(position.plan) + "," + std::to_string(position.buckets);
  text += "|" + std::to_string(s.times.own) + "," + std::to_string(s.times.blocked);
  for (const auto& phase : s.times.phases)
    text += "|" + phase.name + "," + std::to_string(phase.time);
  for (const auto& plan : s.times.plans) {
    text += "|" + plan.name + "," + plan.process_set + "," + std::to_string(plan.ranks) + "," +
            std::to_string(plan.steps);
    for (const std::int64_t wait : plan.waits) text += "," + std::to_string(wait);
  }
  return text;
}

}  // namespace horo::observe
