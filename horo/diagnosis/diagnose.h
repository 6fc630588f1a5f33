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
  // For a verdict on dead, stopped or silent ranks or on a single failure: the operation in which
  // other ranks wait for a blamed rank, and the start of that wait. Empty if no rank waits, and in
  // other verdicts.
  std::string awaited = {};
  WallTime awaited_since = 0;
  // For a verdict on missing, different or unfinished operations: the name of one of them, usually
  // of the oldest.
  std::string operation = {};
};

/// Returns why the ranks make no progress, or why the job ended. Pure. `ranks` may be in any order
/// and need not have all ranks of the job. `now` is a time on the clock of the snapshots. A wait
/// that lasts longer than `stall_after` is a stall.
///
/// Returns the first of these causes that applies:
///   dead       a rank's process ended without any record. If a job has several ranks and all died
///              at about the same time, the job was killed as a whole, and this cause comes last
///   stopped    a rank's process is stopped, for example by SIGSTOP or a debugger
///   failed     a rank failed; the verdict has the text of the first failure. If that text names a
///              rank that has left, the cause is "ended"
///   silent     a rank sends no heartbeat
///   ended      a rank left without failure while other ranks wait for that rank
///   missing    ranks that do not wait themselves have not submitted an operation for which other
///              ranks have waited longer than `stall_after`
///   different operations
///              the ranks that have not submitted such an operation wait in other operations
///   late       an operation that no rank is known to miss has not finished for `stall_after`, or
///              the cause "missing" applies with a tenth of `stall_after`
/// Between "missing" and "different operations", the oldest such operation decides. A rank in a
/// pause is not blamed for a missing operation. If no cause applies, the kind is kNone. The text
/// then describes the pauses, if other ranks have waited for them longer than `stall_after`.
Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after);

}  // namespace horo::observe
