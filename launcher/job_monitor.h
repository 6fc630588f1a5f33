#pragma once

#include <chrono>
#include <optional>
#include <set>
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

/// The ranks among which the first one is that ended while other ranks still ran, as far as looks
/// at the processes show. Empty: nothing is known. More than one: they had ended, or had not been
/// seen, when it was noticed that one had ended.
struct EndedFirst {
  std::vector<int> ranks;
  bool is_of_this_host = false;  ///< of the ranks of this host alone: others are not seen
};

/// Times of a JobMonitor.
struct MonitorTimes {
  std::chrono::milliseconds period{1000};         ///< between two judgements
  std::chrono::milliseconds search_period{20};    ///< between two looks until all ranks are found
  std::chrono::milliseconds search_phase{10000};  ///< how long they are looked for so often
  int judgements = 4;                             ///< that must agree before the job is ended
  int judgements_if_uncertain = 6;  ///< the same if a rank may still start, or end slowly
};

/// Watches the processes of a job and says when it cannot end by itself any more.
class JobMonitor {
 public:
  explicit JobMonitor(const MonitorTimes& times);

  /// Until look() has something to do, unless descriptor() is readable before.
  std::chrono::milliseconds time_to_next_look() const;
  /// For poll(): a rank has ended; -1: not known.
  int descriptor() const { return ranks_.ends().descriptor(); }
  /// Looks at the processes if it is time, or if a rank has ended.
  std::optional<ForcedEnd> look(const MpirunState& mpirun);

  RankProcesses& ranks() { return ranks_; }
  const EndedFirst& ended_first() const { return ended_first_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<ForcedEnd> judge(const MpirunState& mpirun) const;
  std::optional<std::string> missing_rank() const;
  void note_first_end();

  MonitorTimes times_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  Clock::time_point next_judgement_ = start_;
  RankProcesses ranks_;
  EndedFirst ended_first_;
  std::set<int> unseen_at_first_end_;  ///< of ended_first_.ranks
  bool has_noted_first_end_ = false;
  /// The latest judgement, and how many in a row were the same. Judgements are counted in place of
  /// seconds: no time passes for them while this process, and so perhaps all others, is suspended.
  std::string latest_;
  int equal_judgements_ = 0;
};

}  // namespace horo
