#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/observe/leader_client.h"
#include "horo/observe/leader_hub.h"
#include "horo/observe/node_watch.h"
#include "horo/observe/pulse_board.h"
#include "horo/observe/stall_judge.h"
#include "horo/observe/state_source.h"

namespace horo::observe {

/// With which code the watchdog ends a process that is stuck inside a library: EX_TEMPFAIL.
inline constexpr int kStuckExitCode = 75;

/// What a watchdog needs to know and may do.
struct WatchdogOptions {
  std::chrono::nanoseconds stall_warning{std::chrono::seconds(3)};
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// How long after the end of the job was ordered a rank may stay in an operation that had begun
  /// before, until its process is ended.
  std::chrono::nanoseconds stuck_after{std::chrono::seconds(5)};
  /// How long a node looks for rank 0's watchdog until it says that it cannot be reached.
  std::chrono::nanoseconds time_to_find_hub{std::chrono::seconds(10)};
  /// Raised on every rank of the node to end its waits, and told of pauses and of whether the
  /// watchdog of rank 0 sees all ranks of the job; may be null. Outlives the watchdog.
  const AbortSignal* abort = nullptr;
  /// Raises it. From the watchdog's thread.
  std::function<void(const std::string&)> raise_abort;
  /// Shown what is known of the ranks at each look of a watchdog that judges them: rank 0's of all.
  /// From the watchdog's thread; null: nobody is.
  std::function<void(std::span<const RankSnapshot>)> on_look;
  /// Says a line or a few to the user; null: log_warning.
  std::function<void(const std::string&)> say;
  /// Ends the process at once, without destructors: the only place in horo that does. null: _exit.
  std::function<void(int code)> end_process;
};

/// Watches the ranks from a thread of its own, which calls neither MPI nor anything else that waits
/// for another rank. About twice a second it writes down what its rank is doing, for the others of
/// the node to read (PulseBoard). The first rank of each node that lives speaks for it: to rank 0,
/// over TCP, which judges all of them, says which rank keeps the others and why, and after
/// `timeout` ends the job by telling every node to raise the abort signal. A node that cannot reach
/// rank 0 judges its own ranks. A rank that was never heard of is named if others wait and nobody
/// else keeps them.
class Watchdog {
 public:
  /// `topology`, `source` and `board_memory` (see PulseBoard) outlive the watchdog. `hub`: rank
  /// 0's, null on other ranks and in a job of one node; `point`: the hub's, as broadcast.
  Watchdog(const Topology& topology, StateSource& source, std::span<std::byte> board_memory,
           std::unique_ptr<LeaderHub> hub, const MeetingPoint& point, WatchdogOptions options);
  /// Tells the others that this rank goes in good order, and ends the thread.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Now {
    Time steady;
    WallTime wall;
  };

  void run(const std::string& log_label) noexcept;
  void tick();
  void leave();
  void note_own_sleep(const Now& now);
  void end_if_stuck(const RankSnapshot& own, const Now& now);
  void lead(std::vector<RankSnapshot> ranks, const Now& now);
  void report(std::vector<RankSnapshot> ranks, const Now& now);
  void judge_without_hub(std::vector<RankSnapshot> ranks, const Now& now);
  void tell_that_hub_is_out_of_reach(const Now& now);
  bool is_node_leaving(const std::vector<RankSnapshot>& ranks) const;
  void judge(std::vector<RankSnapshot> ranks, const Now& now);
  std::vector<RankSnapshot> unheard(const std::vector<RankSnapshot>& heard, const Now& now) const;
  void add_other_nodes(std::vector<RankSnapshot>& ranks, const Now& now);
  void tell_lost_nodes(const std::vector<RankSnapshot>& ranks);
  bool is_abort_raised() const;
  void resign(const Now& now);
  void excuse_waits(const Now& now);
  void note_that_all_are_seen(const Now& now);
  void order_end(const std::string& reason);

  const Topology& topology_;
  StateSource& source_;
  const WatchdogOptions options_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds silent_after_;
  PulseBoard board_;
  NodeWatch node_watch_;
  StallJudge judge_;
  std::unique_ptr<LeaderHub> hub_;
  LeaderClient client_;
  std::string end_reason_;    // empty: the job goes on
  bool sees_all_ = false;     // of rank 0's: whether it sees all ranks of the job
  std::optional<Now> begun_;  // the first round
  WallTime last_tick_ = 0;
  Time abort_seen_{};
  WallTime abort_seen_at_ = 0;
  bool has_told_that_hub_is_out_of_reach_ = false;
  std::vector<bool> is_node_lost_;
  std::atomic<std::uint32_t> should_stop_{0};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace horo::observe
