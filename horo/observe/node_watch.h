#pragma once

#include <chrono>
#include <vector>

#include "horo/observe/liveness.h"
#include "horo/observe/pulse_board.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// Judges from one rank which ranks of its node live. Used by one thread.
class NodeWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `board` outlives this. `silent_after`: see judge_liveness().
  /// `ranks`: by local rank, what is known of them before they have written: number and host.
  NodeWatch(const PulseBoard& board, std::chrono::nanoseconds silent_after,
            std::vector<RankSnapshot> ranks);

  /// Whether no rank of the node before this one is there to speak for it.
  bool is_speaker(Time now);
  /// Every rank of the node that has come to the board, as it is now. What it does is what it wrote
  /// last, or before, if it is just writing, or was stopped or killed in the middle of that. One
  /// that has not written anything yet is among them only if it does not run.
  std::vector<RankSnapshot> look(Time now);
  /// Counts the silence of all ranks from `now` on.
  void start_anew(Time now);

 private:
  struct Heartbeat {
    std::uint64_t count = 0;
    Time advanced{};
    WallTime advanced_at = 0;
  };
  void note_heartbeats(Time now);
  Liveness liveness_of(int local_rank, const Pulse& pulse, Time now) const;

  const PulseBoard& board_;
  std::chrono::nanoseconds silent_after_;
  std::uint64_t machine_;
  std::vector<Heartbeat> heartbeats_;
  std::vector<RankSnapshot> latest_;  // by local rank, what could be read last
  std::vector<bool> has_written_;     // whether anything could
};

}  // namespace horo::observe
