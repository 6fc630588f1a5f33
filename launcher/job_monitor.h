#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/rank_processes.h"

namespace horo {

/// Why this process ended a job that would not have ended by itself.
struct ForcedEnd {
  enum class Cause {
    kNoRankRuns,   ///< mpirun has not ended although no rank runs any more
    kAbortStuck,   ///< mpirun has reported that it aborts the job, and has not ended
    kRankMissing,  ///< ranks wait in horo::init() for one that has exited
  };
  Cause cause = Cause::kNoRankRuns;
  std::string text;
};

/// What is known of mpirun besides its processes.
struct MpirunState {
  /// mpirun cannot write its output, so that it may be alive without its ranks for any time.
  bool output_is_blocked = false;
  /// Its standard error holds bytes that were not read, so that it may be alive for them alone.
  bool has_pending_errors = false;
  /// mpirun has reported that it aborts the job: it kills every rank within about a second.
  bool is_aborting = false;
};

/// Times of a JobMonitor.
struct MonitorTimes {
  std::chrono::milliseconds period{1000};         ///< between two judgements
  std::chrono::milliseconds search_period{20};    ///< between two searches for ranks, at first
  std::chrono::milliseconds search_phase{10000};  ///< how long that is at first
  int judgements = 4;                             ///< that must agree before the job is ended
  int judgements_if_uncertain = 6;  ///< the same if a rank may still start, or end slowly
};

/// Watches the processes of a job and says when it cannot end by itself any more.
class JobMonitor {
 public:
  explicit JobMonitor(const MonitorTimes& times);

  /// Until look() has something to do.
  std::chrono::milliseconds time_to_next_look() const;
  /// Looks at the processes if it is time.
  std::optional<ForcedEnd> look(const MpirunState& mpirun);

  RankProcesses& ranks() { return ranks_; }
  /// The ranks that ended while other ranks still ran, as far as the looks at the processes show.
  const std::vector<int>& first_ended() const { return first_ended_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<ForcedEnd> judge(const MpirunState& mpirun) const;
  std::optional<std::string> missing_rank() const;
  void note_first_ended(Clock::time_point now);

  MonitorTimes times_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  Clock::time_point next_judgement_ = start_;
  RankProcesses ranks_;
  std::optional<Clock::time_point> first_seen_;  ///< when the first rank was seen
  std::vector<int> first_ended_;
  /// The latest judgement, and how many in a row were the same. Judgements are counted in place of
  /// seconds: no time passes for them while this process, and so perhaps all others, is suspended.
  std::string latest_;
  int equal_judgements_ = 0;
};

}  // namespace horo
