#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/rank/rank_end.h"
#include "launcher/rank_processes.h"

namespace horo {

/// Why hororun ended a job that could not end by itself.
struct ForcedEnd {
  enum class Cause {
    kNoRankRuns,   ///< mpirun has not ended although no rank runs any more
    kAbortStuck,   ///< mpirun has reported that it aborts the job, and has not ended
    kRankMissing,  ///< ranks wait in horo::init() for a rank that has exited
  };
  Cause cause = Cause::kNoRankRuns;
  std::string text;
};

/// What JobMonitor::look() must know about the job besides its processes.
struct JobState {
  /// mpirun cannot write its output. In this state, mpirun may run for any time after its ranks
  /// have ended.
  bool output_is_blocked = false;
  /// The standard error of mpirun has unread bytes. mpirun may be waiting to write the rest of its
  /// output.
  bool has_pending_errors = false;
  /// mpirun has reported that it aborts the job. It usually kills every rank within about a second.
  bool is_aborting = false;
  /// The ends of ranks that runners have reported.
  std::span<const RankEnd> rank_ends = {};
};

/// Times of a JobMonitor.
struct MonitorTimes {
  std::chrono::milliseconds period{1000};       ///< between two decisions
  std::chrono::milliseconds search_period{20};  ///< between two searches until all ranks are found
  std::chrono::milliseconds search_phase{10000};  ///< duration of the searches at search_period
  int judgements = 4;               ///< the number of equal decisions in a row that ends the job
  int judgements_if_uncertain = 6;  ///< the same if ranks may end slowly or are not visible
};

/// Watches the processes of a job and detects that the job cannot end by itself any more. Must be
/// used by one thread.
class JobMonitor {
 public:
  explicit JobMonitor(const MonitorTimes& times);

  /// The time until look() will inspect the processes again.
  std::chrono::milliseconds time_to_next_look() const;
  /// Inspects the processes if time_to_next_look() is 0. If hororun must end the job, returns why.
  std::optional<ForcedEnd> look(const JobState& state);

  RankProcesses& ranks() { return ranks_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<ForcedEnd> judge(const JobState& state) const;
  std::optional<std::string> missing_rank(std::span<const RankEnd> rank_ends) const;

  MonitorTimes times_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  Clock::time_point next_judgement_ = start_;
  RankProcesses ranks_;
  /// The latest decision, and the number of equal decisions in a row. The monitor counts decisions
  /// instead of seconds, because a suspended machine makes no decisions while time passes.
  std::string latest_;
  int equal_judgements_ = 0;
};

}  // namespace horo
