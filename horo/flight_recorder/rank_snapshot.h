#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace horo::observe {

/// Nanoseconds since 1970. In a FlightLog, and in the results of snapshot_of() and
/// live_snapshot_of(), times are by rank 0's wall clock. In other snapshots, times are by the wall
/// clock of the host that uses the snapshot.
using WallTime = std::int64_t;

/// An operation that a rank has submitted and not finished. Also represents a marked gradient or a
/// bucket whose exchange the rank has not finished.
struct OpenOperation {
  std::string name;
  std::string kind;  // of coordinator::name_of(), or kGradientKind, kBucketKind, kFinalizeKind
  std::string process_set;  // empty for all ranks
  // For a gradient or bucket: 0, or the bytes of the whole plan while the bucket is exchanged.
  std::uint64_t bytes = 0;
  WallTime submitted = 0;
  WallTime started = 0;    // 0 if the operation has not started
  std::uint64_t plan = 0;  // for a gradient or a bucket: PlanPosition::plan
};

/// A snapshot has the positions of at most this many plans.
inline constexpr std::size_t kMostPlanPositions = 64;

/// A rank's progress in the steps of a plan.
struct PlanPosition {
  std::uint64_t plan = 0;  // identifies the plan; equal on all its ranks
  // The number of complete steps * FlightProgress::kMostBuckets + the number of buckets exchanged
  // in the current step.
  std::uint64_t buckets = 0;
};

/// How a rank has spent its time since it joined the job, in ns; see HORO_METRICS. All members are
/// 0 or empty if the times are not measured.
struct MeasuredTimes {
  std::int64_t own = 0;      // time in which no thread of the program waited inside horo
  std::int64_t blocked = 0;  // time in which at least one thread of the program waited inside horo
  struct PhaseTime {
    std::string name;
    std::int64_t time = 0;
  };
  std::vector<PhaseTime> phases;  // see metrics::RankMeter::measured()
  struct Plan {
    std::string name, process_set;  // `process_set` is empty for all ranks
    std::int32_t ranks = 0;         // number of ranks of the plan
    std::uint64_t steps = 0;        // number of complete steps
    // The exposed communication of the latest steps, oldest first: the duration of the wait at the
    // end of each step.
    std::vector<std::int64_t> waits;
  };
  std::vector<Plan> plans;
};

enum class Liveness {
  kRunning,
  kStopped,  // the process is stopped, for example by SIGSTOP
  kSilent,   // no recent heartbeat of the rank, or no recent report of its node
  kDead,     // the process has ended, or is assumed to have ended
  kEnded     // the rank has left the job without failure, or waits for the others in its shutdown
};

/// The activity of one rank at one moment.
struct RankSnapshot {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Liveness liveness = Liveness::kRunning;
  WallTime taken = 0;              // the time that this snapshot describes
  WallTime last_sign_of_life = 0;  // the latest time at which the rank is known to have been alive
  std::uint64_t finished = 0;      // number of finished operations and exchanged buckets
  std::string last_finished;       // name of the operation, bucket or step that finished last
  WallTime last_finished_at = 0;
  std::vector<OpenOperation> open;  // submitted and not finished, oldest first
  // The number of open named operations that are not in `open`. If this number is not 0, an
  // operation that is absent from `open` may nevertheless have been submitted.
  std::uint64_t unlisted = 0;
  std::vector<PlanPosition> plans;  // at most kMostPlanPositions
  std::string phase;  // the argument of the current Context::phase(); empty if there is none
  WallTime phase_since = 0;
  // The argument of the current Context::pause(). Empty if there is none.
  std::string pause;
  WallTime pause_since = 0;
  // The operation whose completion callback runs. Empty if there is none.
  std::string callback;
  WallTime callback_since = 0;
  std::string failure;  // why the rank failed or was aborted; otherwise empty
  // Whether `failure` is the text of the abort signal or of FlightRecorder::give_up().
  bool is_aborted = false;
  // Whether a wait inside horo on the rank's node has exceeded HORO_TIMEOUT in the last three
  // seconds. The watchdog sets this field.
  bool has_overdue_wait = false;
  // How the process ended according to the launcher, such as "was killed by signal 9 (Killed)".
  // Empty if unknown. hororun sets this field, and encode() omits it.
  std::string ending;
  MeasuredTimes times;
};

/// Whether the operation represents a gradient or a bucket of a plan.
bool is_of_plan(const OpenOperation& operation);

/// Whether the operation is a Context::send() or recv().
bool is_message(const OpenOperation& operation);

/// Returns the current wall time of this host.
WallTime wall_time_now();

/// Adds `offset` to all wall times of a snapshot. A time of 0 stays 0.
void shift_times(RankSnapshot& snapshot, WallTime offset);

/// Provides the current state of a rank. The watchdog's thread calls snapshot() while other threads
/// change that state.
class SnapshotProvider {
 public:
  virtual ~SnapshotProvider() = default;
  virtual RankSnapshot snapshot() = 0;
};

}  // namespace horo::observe
