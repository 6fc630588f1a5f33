#pragma once

#include <string_view>

#include "horo/base/wait.h"
#include "horo/observe/flight_file.h"

namespace horo::observe {

/// Whether `signal` is sent to end a process (SIGTERM, SIGINT, SIGHUP), as launchers do to the
/// ranks that are left, and no crash.
bool is_outside_signal(int signal);

/// Clears a recorded signal if the program's handler has left by siglongjmp(). Called periodically.
void forget_survived_fault();

/// While this lives, the process that crashes records why in the rank's flight recorder, writes one
/// line to standard error and raises the job's abort signal, so that the other ranks need not wait
/// for its end. Then it ends as it would have ended. Thread-safe.
///
///   - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the line names the rank, the signal and the
///     rank's last operation. Of several threads that crash at once the first is recorded. If the
///     program or a sanitizer had a handler before, only the signal and its time are recorded, and
///     that handler is called, with its own flags and mask: it determines what happens next. It
///     may leave by siglongjmp(), see forget_survived_fault(). Open MPI's own handler is not
///     called: it may deadlock when the heap is damaged.
///   - std::terminate, as after an exception that nothing catches: the line has the exception's
///     text, with those nested in it. A handler that the program had set before is called then.
///     In a child of fork() only that handler is called.
///   - SIGTERM, SIGINT and SIGHUP, where the program has no handler of its own: the signal and its
///     time are recorded, no line is written.
///
/// A handler that the program sets later, and that calls this one, stays in charge for later
/// recorders of the process too.
class CrashRecorder {
 public:
  /// `header`: of the rank's recorder. `abort`: the job's, may be null. Both outlive this.
  /// `rank`: "rank 1 (host b, pid 77)"; it is cut to 200 bytes.
  CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank);
  ~CrashRecorder();
  CrashRecorder(const CrashRecorder&) = delete;
  CrashRecorder& operator=(const CrashRecorder&) = delete;

 private:
  const FlightHeader& header_;
};

}  // namespace horo::observe
