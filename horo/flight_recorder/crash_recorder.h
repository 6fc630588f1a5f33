#pragma once

#include <string_view>

#include "horo/base/wait.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// Whether `signal` is one that launchers send to end a process (SIGTERM, SIGINT, SIGHUP). Such a
/// signal is not a crash.
bool is_termination_signal(int signal);

/// Clears the recorded signal if the program's handler has left by siglongjmp() and the process
/// therefore continues. Called periodically.
void clear_survived_fault();

/// While this object exists, it handles a crash of the process. It records the crash in the flight
/// recorder and writes one line to standard error. It raises the abort signal of the job, which
/// ends the waits of the other ranks. The process then ends as it would have without this class.
/// Thread-safe.
///
///   - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the line names the rank, the signal and the
///     rank's last operation. If several threads crash at the same time, the first is recorded. If
///     the program or a sanitizer had installed a handler before, only the signal and its time are
///     recorded. That handler is then called with its own flags and mask. It may end the process,
///     return, or leave by siglongjmp(); see clear_survived_fault(). Open MPI's handler is not
///     called, because it may deadlock when the heap is damaged.
///   - std::terminate, for example for an uncaught exception: the line has the text of the
///     exception and of its nested exceptions. A terminate handler that the program had installed
///     before is called afterwards. In a child of fork() only that handler is called.
///   - SIGTERM, SIGINT and SIGHUP, if the program has no handler: the signal and its time are
///     recorded. No line is written.
///
/// If the program later installs a handler that calls this one, that handler stays installed when
/// further CrashRecorders are constructed.
class CrashRecorder {
 public:
  /// `header`: the header of the rank's recorder; all zero during horo::init(), before the rank has
  /// tables. `abort`: the job's abort signal; may be null. Both must outlive this object. `rank`:
  /// "rank 1 (host b, pid 77)"; truncated to 199 bytes.
  CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank);
  ~CrashRecorder();
  CrashRecorder(const CrashRecorder&) = delete;
  CrashRecorder& operator=(const CrashRecorder&) = delete;

 private:
  const FlightHeader& header_;
};

}  // namespace horo::observe
