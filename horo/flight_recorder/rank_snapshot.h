#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace horo::observe {

/// Nanoseconds since 1970, by the wall clock of the host that recorded them or, in a FlightLog and
/// in a snapshot made from a FlightLog, of rank 0's host.
using WallTime = std::int64_t;

/// An operation that a rank has submitted and that has not finished on that rank.
struct OpenOperation {
  std::string name;
  std::string kind;         // see coordinator::name_of()
  std::string process_set;  // empty for all ranks
  std::uint64_t bytes = 0;
  WallTime submitted = 0;
  WallTime started = 0;    // 0 if the operation is not agreed yet, or is queued
  std::uint64_t plan = 0;  // for a gradient or a bucket: PlanPosition::plan
};

/// A snapshot has the positions of at most this many plans.
inline constexpr std::size_t kMostPlanPositions = 64;

/// A rank's progress in the steps of a plan.
struct PlanPosition {
  std::uint64_t plan = 0;  // identifies the plan; equal on all ranks
  // Complete steps * FlightProgress::kMostBuckets + buckets exchanged in the current step.
  std::uint64_t buckets = 0;
};

/// How a rank has spent its time since it joined the job, in ns; see HORO_METRICS. All members are
/// 0 or empty if the times are not measured.
struct MeasuredTimes {
  std::int64_t own = 0;      // time in which the program computed
  std::int64_t blocked = 0;  // time in which the program waited inside horo
  struct PhaseTime {
    std::string name;
    std::int64_t time = 0;
  };
  std::vector<PhaseTime> phases;
  struct Plan {
    std::string name, process_set;  // `process_set` is empty for all ranks
    std::int32_t ranks = 0;
    std::uint64_t steps = 0;  // number of complete steps
    // The exposed communication of each of the latest steps: the wait at the end of the step.
    std::vector<std::int64_t> waits;
  };
  std::vector<Plan> plans;
};

enum class Liveness {
  kRunning,
  kStopped,
  kSilent,
  kDead,
  kEnded
};  // kSilent: no recent heartbeat of the rank, or no recent report of its node;
    // kEnded: the rank left the job without failure

/// The activity of one rank at one moment.
struct RankSnapshot {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Liveness liveness = Liveness::kRunning;
  WallTime taken = 0;  // time of this snapshot
  WallTime last_sign_of_life = 0;
  std::uint64_t finished = 0;  // number of finished operations
  std::string last_finished;   // name of the operation that finished last
  WallTime last_finished_at = 0;
  std::vector<OpenOperation> open;  // submitted and not finished, oldest first
  // The number of open named operations that are not in `open`. If this number is not 0, a named
  // operation that is absent from `open` may have been submitted nevertheless.
  std::uint64_t unlisted = 0;
  std::vector<PlanPosition> plans;  // at most kMostPlanPositions
  std::string phase;                // the argument of Context::phase(); empty if there is none
  WallTime phase_since = 0;
  // The argument of Context::pause(), during which no wait times out. Empty if there is none.
  std::string pause;
  WallTime pause_since = 0;
  // The operation whose completion callback runs. Empty if there is none.
  std::string callback;
  WallTime callback_since = 0;
  std::string failure;  // why the rank failed; empty if it has not failed
  // Whether `failure` is the text of the abort signal or of FlightRecorder::give_up().
  bool is_aborted = false;
  // Whether a wait inside horo on the rank's node has lately lasted for HORO_TIMEOUT without
  // progress.
  bool has_overdue_wait = false;
  // How the process ended, as reported by the launcher: "was killed by signal 9 (Killed)". Empty if
  // unknown.
  std::string ending;
  MeasuredTimes times;
};

/// Whether the operation belongs to a plan. Ranks start such operations without negotiation.
bool is_of_plan(const OpenOperation& operation);

/// The wall time of this host.
WallTime wall_time_now();

/// Adds `offset` to all times of a snapshot. A time of 0 stays 0.
void shift_times(RankSnapshot& snapshot, WallTime offset);

/// Provides the current state of a rank. The watchdog's thread calls snapshot() while other threads
/// change that state.
class SnapshotProvider {
 public:
  virtual ~SnapshotProvider() = default;
  virtual RankSnapshot snapshot() = 0;
};

}  // namespace horo::observe
