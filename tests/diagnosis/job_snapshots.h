#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

inline constexpr WallTime kSecond = 1'000'000'000;
/// The time of all snapshots. Hosts "a" and "b" have two ranks each.
inline constexpr WallTime kNow = 1'700'000'000 * kSecond;

/// Ranks that compute and do not wait.
inline std::vector<RankSnapshot> quiet_job(int ranks) {
  std::vector<RankSnapshot> job;
  for (int r = 0; r < ranks; ++r) {
    RankSnapshot rank;
    rank.rank = r;
    rank.host = r < 2 ? "a" : "b";
    rank.pid = 4700 + r;
    rank.taken = kNow;
    rank.last_sign_of_life = kNow;
    rank.finished = 100;
    rank.last_finished = "step";
    rank.last_finished_at = kNow - 43 * kSecond;
    job.push_back(rank);
  }
  return job;
}

inline void submit(RankSnapshot& rank, const std::string& name, int seconds_ago,
                   const std::string& kind = "allreduce", bool is_started = false) {
  OpenOperation open;
  open.name = name;
  open.kind = kind;
  open.bytes = 8;
  open.submitted = kNow - seconds_ago * kSecond;
  open.started = is_started ? open.submitted : 0;
  rank.open.push_back(open);
}

}  // namespace horo::observe
