#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/rank_end.h"
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

/// What is known of the job besides its processes.
struct JobState {
  /// mpirun cannot write its output, so that it may be alive without its ranks for any time.
  bool output_is_blocked = false;
  /// Its standard error holds bytes that were not read, so that it may be alive for them alone.
  bool has_pending_errors = false;
  /// mpirun has reported that it aborts the job: it kills every rank within about a second.
  bool is_aborting = false;
  /// The ends of ranks that were reported.
  std::span<const RankEnd> rank_ends = {};
};

/// Times of a JobMonitor.
struct MonitorTimes {
  std::chrono::milliseconds period{1000};         ///< between two judgements
  std::chrono::milliseconds search_period{20};    ///< between two looks until all ranks are found
  std::chrono::milliseconds search_phase{10000};  ///< how long they are looked for so often
  int judgements = 4;                             ///< that must agree before the job is ended
  int judgements_if_uncertain = 6;                ///< the same if ranks may end slowly
};

/// Watches the processes of a job and says when it cannot end by itself any more.
class JobMonitor {
 public:
  explicit JobMonitor(const MonitorTimes& times);

  /// Until look() has something to do.
  std::chrono::milliseconds time_to_next_look() const;
  /// Looks at the processes if it is time.
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
  /// The latest judgement, and how many in a row were the same. Judgements are counted in place of
  /// seconds: no time passes for them while this process, and so perhaps all others, is suspended.
  std::string latest_;
  int equal_judgements_ = 0;
};

}  // namespace horo
