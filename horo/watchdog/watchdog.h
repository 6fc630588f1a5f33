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
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/watchdog/heartbeat_table.h"
#include "horo/watchdog/leader_link.h"
#include "horo/watchdog/long_waits.h"
#include "horo/watchdog/node_watch.h"
#include "horo/watchdog/stall_policy.h"

namespace horo::observe {

/// The exit code of a process that horo ends because it is stuck inside another library after an
/// abort, or because it has waited too long in horo::init(). Equals EX_TEMPFAIL.
inline constexpr int kStuckExitCode = 75;

/// Parameters and callbacks of a watchdog.
struct WatchdogOptions {
  std::chrono::nanoseconds stall_warning{std::chrono::seconds(3)};
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// How long after the abort a rank may stay in an operation that it had begun before the abort.
  /// The watchdog then ends the process.
  std::chrono::nanoseconds stuck_after{std::chrono::seconds(5)};
  /// How long, at least, a node tries to connect to rank 0's watchdog before the node logs a
  /// warning.
  std::chrono::nanoseconds time_to_find_hub{std::chrono::seconds(10)};
  /// The abort signal of the rank's node; may be null. Must outlive the watchdog. The signal ends
  /// the waits of the ranks that share it. The watchdog also stores in the signal the time that
  /// pauses exclude from waits, and the time until which a watchdog has snapshots of all ranks.
  const AbortSignal* abort = nullptr;
  /// Raises the abort signal. Called from the watchdog's thread. May be null.
  std::function<void(const std::string&)> raise_abort;
  /// Receives the known snapshots at each evaluation. With a hub, these are the snapshots of this
  /// node and of all nodes that have reported. Called from the watchdog's thread. May be null.
  std::function<void(std::span<const RankSnapshot>)> on_snapshots;
  /// The waits that coordinators and plans of this rank have found; may be null. Must outlive the
  /// watchdog. The waits are logged only while no watchdog has snapshots of all ranks.
  LongWaits* long_waits = nullptr;
  /// Logs one or a few lines. Called from the watchdog's thread. If null, the watchdog calls
  /// log_warning().
  std::function<void(const std::string&)> log;
  /// Ends the process with `code` at once, without running destructors. Called from the watchdog's
  /// thread. If null, the watchdog calls _exit().
  std::function<void(int code)> end_process;
};

/// The interval at which each rank publishes its state and the watchdog checks the states. The
/// interval is an eighth of stall_warning or of timeout, whichever is shorter, but at least 10 ms
/// and at most 500 ms. A stall is usually reported at most four intervals after stall_warning: one
/// each for the publication, the message to rank 0, the evaluation, and the confirmation by newer
/// snapshots.
std::chrono::nanoseconds watchdog_interval(const WatchdogOptions& options);

/// Watches the ranks of a job from its own thread. The thread does not call MPI and does not wait
/// for other ranks.
///
/// After every watchdog_interval(), the thread publishes the state of its rank to the other ranks
/// of the node (HeartbeatTable). The first running rank of each node is the leader. The leader of
/// each node except rank 0's sends the snapshots of the node to the hub, which is the TCP server of
/// rank 0's watchdog. Rank 0's watchdog evaluates all snapshots and logs which ranks block the
/// others. It aborts the job as StallPolicy decides, by the abort signal of its node and by a
/// message to every other node. A leader that cannot reach the hub evaluates the ranks of its own
/// node. A rank without any snapshot is blamed if others wait and no known rank blocks them.
class Watchdog {
 public:
  /// `topology`, `source` and `table_memory` (see HeartbeatTable) must outlive the watchdog. `hub`
  /// must be null except on rank 0 of a job of several nodes. `hub_address` is the address that
  /// rank 0 has broadcast, or empty in a job of one node.
  Watchdog(const Topology& topology, SnapshotProvider& source, std::span<std::byte> table_memory,
           std::unique_ptr<LeaderHub> hub, const HubAddress& hub_address, WatchdogOptions options);
  /// Stops the thread, which first publishes that this rank leaves the job (Liveness::kEnded).
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
  void handle_own_suspension(const Now& now);
  void exit_if_stuck(const RankSnapshot& own, const Now& now);
  void run_hub(std::vector<RankSnapshot> ranks, const Now& now);
  void report_to_hub(std::vector<RankSnapshot> ranks, const Now& now);
  void evaluate_without_hub(std::vector<RankSnapshot> ranks, const Now& now);
  void report_unreachable_hub(const Now& now);
  bool is_node_leaving(const std::vector<RankSnapshot>& ranks) const;
  void evaluate(std::vector<RankSnapshot> ranks, const Now& now);
  std::vector<RankSnapshot> unknown_ranks(const std::vector<RankSnapshot>& known,
                                          const Now& now) const;
  void add_other_nodes(std::vector<RankSnapshot>& ranks, const Now& now);
  void evaluate_or_report(const Now& now);
  void report_long_waits(const Now& now);
  void report_lost_nodes(const std::vector<RankSnapshot>& ranks);
  bool is_abort_raised() const;
  void hand_over(const Now& now);
  void excuse_waits(const Now& now);
  void extend_watch(const Now& now);
  void abort_job(const std::string& reason);

  const Topology& topology_;
  SnapshotProvider& source_;
  const WatchdogOptions options_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds silent_after_;
  HeartbeatTable table_;
  NodeWatch node_watch_;
  StallPolicy policy_;
  std::unique_ptr<LeaderHub> hub_;
  LeaderClient client_;
  std::string end_reason_;      // why the job is aborted; empty if it is not
  bool sees_all_ = false;       // whether the last evaluation had snapshots of all ranks
  std::optional<Now> started_;  // time of the first round
  WallTime last_tick_ = 0;
  Time abort_seen_{};
  WallTime abort_seen_at_ = 0;
  bool has_reported_unreachable_hub_ = false;
  std::vector<bool> is_node_lost_;
  std::atomic<std::uint32_t> should_stop_{0};
  std::jthread thread_;  // last member: uses all of the above
};

}  // namespace horo::observe
