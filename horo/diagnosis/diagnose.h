#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// Why a job makes no progress.
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
  // For a verdict on the state of a process or on a single failure: the operation in which other
  // ranks wait for a blamed rank, and the start of that wait. Empty if no rank waits, and in other
  // verdicts.
  std::string awaited = {};
  WallTime awaited_since = 0;
  // For a verdict on missing, different or unfinished operations: the name of the oldest of them.
  std::string operation = {};
};

/// Returns why the ranks make no progress, or why the job ended. Pure. `ranks` may be in any order,
/// and ranks may be absent. `now` is a time on the clock of the snapshots. A wait that lasts longer
/// than `stall_after` is a stall.
///
/// Returns the first of these causes that applies. The oldest missing operation decides between
/// "different operations" and "missing":
///   dead       a rank's process ended without any record. If all ranks died at about the same
///              time, the job was killed as a whole, and the other causes are examined first
///   stopped    a rank's process is stopped, for example by SIGSTOP or a debugger
///   failed     a rank failed; the verdict has the text of the first failure
///   silent     a rank sends no heartbeat
///   ended      a rank left without failure while other ranks wait for that rank
///   different operations
///              ranks wait for each other in a cycle: some ranks are in one collective and the
///              rest in another
///   missing    ranks that do not wait themselves have not submitted an operation for which other
///              ranks have waited longer than `stall_after`
///   late       all ranks have submitted an operation that has not finished for `stall_after`, or
///              the cause "missing" applies with a tenth of `stall_after`
/// A rank in a pause is not blamed for a missing operation.
Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after);

}  // namespace horo::observe
