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
  // If the verdict is about the state of a process or a failure: the operation in which other ranks
  // wait for it, and since when. Empty: no rank waits.
  std::string awaited = {};
  WallTime awaited_since = 0;
  // If the verdict is about an operation: its name. If there are several: the oldest.
  std::string operation = {};
};

/// Returns why the ranks make no progress, or why the job ended. Pure. `ranks`: in any order; ranks
/// may be absent. `now`: by the clock of the snapshots. `stall_after`: how long a wait may last
/// before it is a stall.
///
/// Returns the first of these causes that applies:
///   dead       a rank's process ended without any record. If all ranks died at about the same
///              time, the job was killed as a whole, and its last activity is examined instead
///   stopped    a rank's process is stopped, for example by SIGSTOP or a debugger
///   failed     a rank failed; the verdict has its text. Of several ranks, the first
///   silent     a rank gives no sign of life
///   ended      a rank left without failure while others wait for it
///   different operations
///              ranks wait for each other in a cycle: some ranks are in one collective and the
///              rest in another
///   missing    ranks that are not waiting themselves have not submitted an operation for which
///              others have waited longer than `stall_after`
///   late       the same, for more than a tenth of `stall_after`; or all ranks have submitted an
///              operation that has not finished for `stall_after`
/// A rank in a pause is not blamed.
Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after);

}  // namespace horo::observe
