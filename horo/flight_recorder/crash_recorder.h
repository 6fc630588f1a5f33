#pragma once

#include <string_view>

#include "horo/base/wait.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// Whether `signal` is SIGTERM, SIGINT or SIGHUP. Launchers send these signals to end a process, so
/// they do not count as a crash.
bool is_termination_signal(int signal);

/// Clears the recorded signal if its handler has ended although the process continues, for example
/// because the program's handler has called siglongjmp(). Called periodically.
void clear_survived_fault();

/// While this object exists, it handles a crash of the process: it records the crash in the flight
/// recorder, writes one line to standard error, and raises the abort signal. The abort signal ends
/// the waits of the other ranks of the node. The list below has the details and exceptions.
/// Afterwards, the process ends or continues as it would without this class. A process may have
/// several objects, for example one for each job. An object beyond the sixteenth has no effect.
/// Thread-safe.
///
///   - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the line names the rank, the signal and the
///     rank's last operation. If several threads crash at the same time, only the first crash is
///     reported. If the program or a sanitizer had installed a handler before, this class records
///     only the signal and its time. It then calls that handler, which runs with its own flags and
///     mask. The handler may end the process, return, or call siglongjmp(); see
///     clear_survived_fault(). Open MPI's handler is not called, because that handler may deadlock
///     when the heap is damaged.
///   - std::terminate, for example for an uncaught exception: the line has the text of the
///     exception and of its nested exceptions. A terminate handler that the program had installed
///     before is called afterwards. In a child of fork(), only that handler is called.
///   - SIGTERM, SIGINT and SIGHUP, if their action was the default before: only the signal and its
///     time are recorded.
///
/// The program may later install a handler that calls the handler of this class. The program's
/// handler then stays installed when further CrashRecorders are constructed.
class CrashRecorder {
 public:
  /// `header` is the header of the rank's recorder, or an all-zero header during horo::init(), when
  /// the rank has no recorder yet. `abort` is the job's abort signal, or null. `header` and `abort`
  /// must outlive this object. `rank` describes the rank, as in "rank 1 (host b, pid 77)", and is
  /// truncated to 199 bytes.
  CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank);
  ~CrashRecorder();
  CrashRecorder(const CrashRecorder&) = delete;
  CrashRecorder& operator=(const CrashRecorder&) = delete;

 private:
  const FlightHeader& header_;
};

}  // namespace horo::observe
