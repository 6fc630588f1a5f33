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
/// aborted. Depends only on its arguments and on its earlier calls. Used by one thread at a time.
class StallPolicy {
 public:
  struct Decision {
    std::optional<std::string> warning;  ///< one or a few lines for the console
    /// Why the job is aborted now. The aborted waits throw this text.
    std::optional<std::string> abort_reason;
    std::optional<std::string> notice = {};  ///< one line on a long pause or callback
  };

  /// Warnings: a stall is reported when ranks have waited for `stall_warning` and newer snapshots
  /// of the waiting ranks confirm it. A dead, failed, stopped or silent rank is reported at once.
  /// If other ranks wait for such a rank in an operation that this report does not name, another
  /// warning names it after a third of `stall_warning`. A warning is repeated whenever four times
  /// `stall_warning` have passed. The end of a reported stall is reported too.
  ///
  /// Abort: a dead or failed rank aborts the job at once. A rank for which others wait although it
  /// has left the job aborts the job when this stall is confirmed. A stopped rank aborts the job
  /// `timeout` after it was first observed to be stopped, and a silent rank when it has been silent
  /// for `timeout` plus `extra_timeout`. Any other stall aborts the job when ranks have waited for
  /// `timeout`.
  ///
  /// An exchange that all its ranks have started may take 100 ns per byte longer before it counts
  /// as a stall, unless a rank has an overdue wait (RankSnapshot::has_overdue_wait).
  /// `extra_timeout` lets a watchdog with snapshots of more ranks decide first.
  StallPolicy(std::chrono::nanoseconds stall_warning, std::chrono::nanoseconds timeout,
              std::chrono::nanoseconds extra_timeout = std::chrono::nanoseconds(0));

  /// Evaluates the snapshots at `now`. A pause that has lasted for `timeout` gives a notice, which
  /// is repeated after each further `timeout`. While a rank is in a pause, no wait counts. A
  /// callback that has run for `stall_warning` gives a notice, which is repeated after each
  /// `timeout`.
  ///
  /// `unknown_ranks` are the ranks without a snapshot. If no known rank blocks an operation in
  /// which ranks wait, the unknown members of the operation are blamed once they are silent.
  /// Unknown ranks may be alive but unreachable for the watchdogs. Therefore the job is aborted
  /// when the operation has lasted for `timeout` plus `extra_timeout`, however long the unknown
  /// ranks have been silent.
  Decision evaluate(std::vector<RankSnapshot> ranks, WallTime now,
                    std::span<const RankSnapshot> unknown_ranks = {});
  /// Whether the waits from LongWaits need no report. This is so while a stall that this policy has
  /// reported lasts, while is_paused(), and after this policy has aborted the job.
  bool explains_waits() const { return reported_.last_reported != 0 || is_paused_ || has_ended_; }
  /// Returns those of `waits` that are due for a report. A wait is due if it has lasted for
  /// stall_warning plus `delay` and explains_waits() is false. A wait of the same name is due again
  /// after repeat_interval(). For use while no watchdog has snapshots of all ranks.
  std::vector<LongWaits::Wait> unexplained_waits(std::span<const LongWaits::Wait> waits,
                                                 WallTime now, std::chrono::nanoseconds delay);
  /// The time after which a report is repeated: four times `stall_warning`.
  std::chrono::nanoseconds repeat_interval() const { return kRepeatAfter * stall_warning_; }
  /// Whether a running rank was in a pause at the last evaluation.
  bool is_paused() const { return is_paused_; }
  /// Ends the observation of the current stall, because the stall is over or because another
  /// watchdog evaluates the ranks from now on. Returns a text that the ranks no longer block the
  /// others; nullopt if no stall was reported or this policy has aborted the job.
  std::optional<std::string> hand_over(WallTime now);
  /// Makes all waits count from `now`, because the watchdog itself was suspended.
  void restart_timers(WallTime now);

 private:
  static constexpr int kRepeatAfter = 4;  // in units of stall_warning_
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
  std::map<std::string, WallTime> waits_reported_;  // by name; see unexplained_waits()
  ReportedStall candidate_, reported_;  // the latest verdict, and the latest confirmed verdict
  bool is_paused_ = false;
  bool has_ended_ = false;
};

}  // namespace horo::observe
