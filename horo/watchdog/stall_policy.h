#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/diagnosis/diagnose.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/watchdog/long_waits.h"

namespace horo::observe {

/// Decides from periodic snapshots of the ranks which warnings are logged and when the job is
/// aborted. Depends only on its arguments and on its earlier calls. Used by one thread.
class StallPolicy {
 public:
  struct Decision {
    std::optional<std::string> warning;  ///< one or a few lines for the console
    /// Why the job is aborted now; the text of all aborted waits.
    std::optional<std::string> abort_reason;
    std::optional<std::string> notice = {};  ///< one line for the console that is not about a stall
  };

  /// Warnings: a stall is reported after `stall_warning`, once newer snapshots of the waiting ranks
  /// confirm it. A dead, stopped or silent rank is reported at once. The operation that this rank
  /// blocks is reported when other ranks have waited for a third of `stall_warning`. A warning is
  /// repeated after four times `stall_warning`. The end of a reported stall is reported too.
  ///
  /// Abort: a stall aborts the job after `timeout`. A dead rank aborts the job at once. If a rank
  /// has left without failure and others wait for it, the job is aborted when this stall is
  /// confirmed.
  ///
  /// `extra_timeout` is added to `timeout` for silent ranks, so that a watchdog with snapshots of
  /// more ranks decides first.
  StallPolicy(std::chrono::nanoseconds stall_warning, std::chrono::nanoseconds timeout,
              std::chrono::nanoseconds extra_timeout = std::chrono::nanoseconds(0));

  /// Evaluates the snapshots at `now`. A pause that has lasted for `timeout` gives a notice, which
  /// is repeated after each further `timeout`. A pause never aborts the job. A callback that has
  /// run for `stall_warning` gives a notice, repeated after each `timeout`.
  ///
  /// `unknown_ranks` are the ranks without a snapshot. If no known rank blocks a waiting operation,
  /// the unknown members of the operation are blamed once they are silent. Unknown ranks may be
  /// alive but unreachable for the watchdogs. Therefore the job is aborted when the operation has
  /// lasted for `timeout` plus `extra_timeout`, independent of how long the unknown ranks have been
  /// silent.
  Decision evaluate(std::vector<RankSnapshot> ranks, WallTime now,
                    std::span<const RankSnapshot> unknown_ranks = {});
  /// Whether waits need no separate report. This is so if this policy has reported a stall, a rank
  /// is in a pause, or this policy has aborted the job.
  bool explains_waits() const { return reported_.last_reported != 0 || is_paused_ || has_ended_; }
  /// Returns those of `waits` that are due for a report. A wait is due if it has lasted for
  /// stall_warning plus `delay` and explains_waits() is false. It is due again after
  /// repeat_interval(). The caller must call this function only while no watchdog has snapshots of
  /// all ranks.
  std::vector<LongWaits::Wait> unexplained_waits(std::span<const LongWaits::Wait> waits,
                                                 WallTime now, std::chrono::nanoseconds delay);
  /// The time after which a report is repeated: four times `stall_warning`.
  std::chrono::nanoseconds repeat_interval() const { return kRepeatAfter * stall_warning_; }
  /// Whether a running rank was in a pause at the last evaluation.
  bool is_paused() const { return is_paused_; }
  /// Resets the policy, because another watchdog evaluates the ranks from now on. That watchdog has
  /// no record of the reported stall. Returns a text that the reported stall is over; nullopt if no
  /// stall was reported.
  std::optional<std::string> hand_over(WallTime now);
  /// Ignores all waiting before `now`, because the watchdog itself was suspended.
  void restart_timers(WallTime now);

 private:
  static constexpr int kRepeatAfter = 4;  // in units of the stall warning time
  struct ReportedStall {
    Verdict::Kind kind = Verdict::Kind::kNone;
    std::vector<int> blamed;
    std::string ranks_text;      // of the blamed ranks
    WallTime since = 0;          // when the verdict was first observed
    WallTime last_reported = 0;  // 0 if not reported yet
    std::string awaited;         // Verdict::awaited of the last report
    bool is_wait_reported = false;
    std::string operation = {};  // Verdict::operation
  };
  bool is_report_due(const Verdict& verdict, WallTime now);
  Decision decide(std::vector<RankSnapshot> ranks, WallTime now,
                  std::span<const RankSnapshot> unknown_ranks);
  std::optional<std::string> pause_notice(const std::vector<RankSnapshot>& ranks, WallTime now);
  std::optional<std::string> callback_notice(const std::vector<RankSnapshot>& ranks, WallTime now);
  static bool matches(const ReportedStall& reported, const Verdict& verdict);
  bool is_confirmed(const Verdict& verdict, const std::vector<RankSnapshot>& ranks, WallTime now);
  void discount_suspension(std::vector<RankSnapshot>& ranks, WallTime now);
  std::vector<RankSnapshot> possible_blockers(const std::vector<RankSnapshot>& ranks,
                                              std::span<const RankSnapshot> unknown_ranks,
                                              WallTime now, std::chrono::nanoseconds lasting) const;
  WallTime silent_since(const Verdict& verdict, const std::vector<RankSnapshot>& ranks) const;
  bool ends_job(const Verdict& verdict, const std::vector<RankSnapshot>& ranks, WallTime now) const;

  std::chrono::nanoseconds stall_warning_;
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds extra_timeout_;
  WallTime counted_from_ = 0;
  WallTime resumed_at_ = 0;                         // last call of restart_timers()
  WallTime pause_reported_ = 0;                     // 0 if no long pause was reported
  WallTime callback_reported_ = 0;                  // 0 if no long callback was reported
  std::map<std::string, WallTime> waits_reported_;  // see unexplained_waits(), by name
  ReportedStall candidate_, reported_;  // the latest verdict, and the latest confirmed verdict
  bool is_paused_ = false;
  bool has_ended_ = false;
};

}  // namespace horo::observe
