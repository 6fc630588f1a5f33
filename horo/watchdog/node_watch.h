#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "horo/flight_recorder/process_state.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/watchdog/heartbeat_table.h"

namespace horo::observe {

/// What one rank can observe of another rank of its node.
struct ProcessObservation {
  bool has_left = false;               ///< the rank has published that it left the job
  bool is_visible = false;             ///< the process was looked up by its pid, successfully
  std::optional<ProcessStat> process;  ///< if is_visible: the process with that pid, if any
  std::uint64_t start_time = 0;  ///< start time of the rank's process, as published by the rank
  std::chrono::nanoseconds silence{};  ///< since this rank last saw the heartbeat advance
};

/// Derives the liveness of a rank from the arguments only. A rank that has left is ended. If the
/// rank's process does not exist any more, the rank is dead once its last heartbeat is older than
/// one second. If the process is a zombie, that limit is two seconds. If the process is stopped,
/// the rank is stopped. If the process exists in another state, the rank is silent once its last
/// heartbeat is older than ten times `silent_after`, because a busy machine may delay heartbeats.
/// If the process cannot be looked up, the rank is silent once its last heartbeat is older than
/// `silent_after`, and is never dead. In all other cases, the rank is running.
Liveness judge_liveness(const ProcessObservation& observation,
                        std::chrono::nanoseconds silent_after);

/// Determines for one rank which other ranks of its node are alive. Used by one thread at a time.
class NodeWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `table` must outlive this object. See judge_liveness() for `silent_after`. `ranks` has one
  /// snapshot for each rank of the node, by local rank, with its number and host. They stand for
  /// ranks that have not published yet.
  NodeWatch(const HeartbeatTable& table, std::chrono::nanoseconds silent_after,
            std::vector<RankSnapshot> ranks);

  /// Whether this rank is the leader of its node: no lower local rank is registered and running
  /// (Liveness::kRunning). The leader reports for the node.
  bool is_leader(Time now);
  /// Returns the last readable snapshot of every registered rank of the node, with its liveness at
  /// `now`. A rank without a readable snapshot is included only if it is not running.
  std::vector<RankSnapshot> snapshots(Time now);
  /// Restarts the heartbeat timeouts of all ranks at `now`.
  void restart_timers(Time now);

 private:
  struct Heartbeat {
    std::uint64_t count = 0;
    Time advanced{};
    WallTime advanced_at = 0;
  };
  void update_heartbeats(Time now);
  Liveness liveness_of(int local_rank, const HeartbeatEntry& entry, Time now) const;

  const HeartbeatTable& table_;
  std::chrono::nanoseconds silent_after_;
  std::uint64_t machine_;
  std::vector<Heartbeat> heartbeats_;
  std::vector<RankSnapshot> latest_;  // by local rank: the last snapshot that could be read
  std::vector<bool> has_snapshot_;    // by local rank: whether one could be read
};

}  // namespace horo::observe
