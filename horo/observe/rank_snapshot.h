#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace horo::observe {

/// Nanoseconds since 1970 by the clock of the host that noted them.
using WallTime = std::int64_t;

/// An operation that a rank has submitted and that has not finished there.
struct OpenOperation {
  std::string name, kind,
      process_set;  // kind as coordinator::name_of says; process_set empty: all ranks
  std::uint64_t bytes = 0;
  WallTime submitted = 0;
  WallTime started = 0;  // 0: not yet agreed, or waiting for its turn
};

/// Where the time of a rank has gone since it joined the job, in ns; see HORO_METRICS. All empty
/// where it is not measured.
struct MeasuredTimes {
  std::int64_t own = 0;      // in which the program computed
  std::int64_t blocked = 0;  // in which it waited inside horo
  struct Phase {
    std::string name;
    std::int64_t time = 0;
  };
  std::vector<Phase> phases;
  struct Plan {
    std::string name, process_set;  // process_set empty: all ranks
    std::int32_t ranks = 0;
    std::uint64_t steps = 0;          // that are complete
    std::vector<std::int64_t> waits;  // at the end of the latest of them: exposed communication
  };
  std::vector<Plan> plans;
};

enum class Liveness {
  kRunning,
  kStopped,
  kSilent,
  kDead,
  kEnded
};  // kSilent: no sign of life; kEnded: left in good order

/// What one rank was doing at one moment.
struct RankSnapshot {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Liveness liveness = Liveness::kRunning;
  WallTime taken = 0;  // when this picture was taken
  WallTime last_sign_of_life = 0;
  std::uint64_t finished = 0;  // operations
  std::string last_finished;   // name
  WallTime last_finished_at = 0;
  std::vector<OpenOperation> open;  // submitted and not finished, oldest first
  // Named operations that are open and not in `open`. If there are any, a named operation that is
  // absent from `open` may have been submitted all the same.
  std::uint64_t unlisted = 0;
  std::string phase;  // Context::phase("forward"), empty: none
  WallTime phase_since = 0;
  std::string pause;  // Context::pause("checkpoint"): time that is no stall; empty: none
  WallTime pause_since = 0;
  std::string callback;  // the operation whose completion callback runs; empty: none does
  WallTime callback_since = 0;
  std::string failure;  // why the rank gave up, empty: it has not
  // `failure` is the text of the abort signal, which another rank or a watchdog raised first.
  bool is_aborted = false;
  // How the process ended, by the launcher's report: "was killed by signal 9 (Killed)". Empty: not
  // known.
  std::string ending;
  MeasuredTimes times;
};

/// Why a job does not go on.
struct Verdict {
  enum class Kind {
    kNone,
    kDead,
    kStopped,
    kSilent,
    kFailed,
    kEnded,
    kDifferentOperations,
    kMissing,
    kLate
  };
  Kind kind = Kind::kNone;
  std::vector<int> blamed;
  std::string text;  // one or a few lines for the console
  // Of one that is seen on a process or its failure itself: the operation in which others wait for
  // it, and since when; empty: none does.
  std::string awaited = {};
  WallTime awaited_since = 0;
  // Of one that is about an operation: the (oldest) operation.
  std::string operation = {};
};

/// Pure. What keeps the ranks, or what kept them at the end. `ranks`: in any order, some may be
/// absent. `now`: by the clock of the snapshots. `stall_after`: how long a wait may last before it
/// is a stall. See horo/observe/diagnose.h.
Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after);

}  // namespace horo::observe
