#pragma once

#include "horo/observe/rank_snapshot.h"

/// diagnose(), declared in rank_snapshot.h, looks for the first of these that explains why a job
/// stands:
///   dead       a rank's process is gone without a word; if all are, at about the same time, the
///              job was killed as a whole, and what it did at that moment is looked at
///   stopped    a rank's process is stopped, as by SIGSTOP or a debugger
///   failed     a rank gave up, with its text; of several the first
///   silent     a rank gives no sign of life
///   ended      a rank has left in good order while others wait for it
///   different operations
///              ranks wait for each other in a circle: a subset of ranks is in one collective and
///              the rest in another
///   missing    ranks that wait for nothing themselves have not submitted what others have waited
///              for longer than `stall_after`
///   late       the same, for more than a tenth of that; or all ranks have submitted an operation
///              that has not finished for `stall_after`
/// A rank in a pause is waited for without blame.
