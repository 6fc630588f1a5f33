#pragma once

#include <string_view>

#include "horo/base/wait.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// Whether `signal` is a signal that launchers send to end a process (SIGTERM, SIGINT, SIGHUP).
/// Such a signal is not a crash.
bool is_termination_signal(int signal);

/// Clears the recorded signal if the program's signal handler has called siglongjmp() and the
/// process therefore continues. Called periodically.
void clear_survived_fault();

/// While this object exists, it handles a crash of the process. It records the crash in the flight
/// recorder and writes one line to standard error. It raises the abort signal of the job, which
/// ends the waits of the other ranks. The process then ends or continues as it would without this
/// class. The list states the exceptions. Thread-safe.
///
///   - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the line names the rank, the signal and the
///     rank's last operation. If several threads crash at the same time, only the first crash is
///     recorded. If the program or a sanitizer had installed a handler before, only the signal and
///     its time are recorded. That handler is then called with its own flags and mask. The handler
///     may end the process, return, or call siglongjmp(); see clear_survived_fault(). Open MPI's
///     handler is not called, because that handler may deadlock when the heap is damaged.
///   - std::terminate, for example for an uncaught exception: the line has the text of the
///     exception and of its nested exceptions. A terminate handler that the program had installed
///     before is called afterwards. In a child of fork() only that handler is called.
///   - SIGTERM, SIGINT and SIGHUP, if their action was the default before: only the signal and its
///     time are recorded.
///
/// The program may later install a handler that calls the handler of this class. The program's
/// handler then stays installed when further CrashRecorders are constructed.
class CrashRecorder {
 public:
  /// `header` is the header of the rank's recorder. It is all zero during horo::init(), before the
  /// rank has tables. `abort` is the job's abort signal, or null. `header` and `abort` must outlive
  /// this object. `rank` describes the rank, as in "rank 1 (host b, pid 77)", and is truncated to
  /// 199 bytes.
  CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank);
  ~CrashRecorder();
  CrashRecorder(const CrashRecorder&) = delete;
  CrashRecorder& operator=(const CrashRecorder&) = delete;

 private:
  const FlightHeader& header_;
};

}  // namespace horo::observe
