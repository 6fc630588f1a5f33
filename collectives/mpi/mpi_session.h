#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace horo::collectives {

/// The use of MPI by one runtime of horo. The constructor initialises MPI if the program has not
/// done so. If horo initialised MPI, finalize() of the last open session of the process finalises
/// it. Calls to one session must not overlap.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE, unless MPI is initialised already. If this
  /// constructor initialises MPI, it first sets parameters of Open MPI in the environment of the
  /// process. These include the eager limits of the TCP transport, so that messages of
  /// `message_bytes` need no rendezvous. It leaves all eager limits unchanged if the user has set
  /// one of them in the environment or on the command line of mpirun. `environment` holds
  /// "NAME=VALUE" entries, among them the variables of launchers.
  ///
  /// Throws InvalidArgument if the program initialised MPI with a lower thread level. Throws
  /// CommunicationError in each of these cases: require_mpi_of_build() throws; the MPI library does
  /// not provide the thread level; MPI has already been finalised; MPI reports a world of one
  /// process although the launcher started several; an MPI call fails. Throws ShutdownError in a
  /// process that was forked after the first session was made.
  MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Registers two callbacks, until unwatch(). If the program calls MPI_Finalize, `before_finalize`
  /// runs inside that call while MPI still works. If the process ends by exit() or by a return from
  /// main(), `at_exit` runs with the exit code. `at_exit` may call finalize(). The caller must call
  /// watch() at most once per session.
  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit);
  /// Removes the callbacks. After this function has returned, neither callback starts. If `at_exit`
  /// is running on another thread, this function waits for it. No other thread may be in
  /// MPI_Finalize during the call.
  void unwatch();
  /// Call this function when this process fails because another rank failed. If on_exit() runs
  /// within the next three seconds, it returns only when they have passed. mpirun ends a job as
  /// soon as one process exits with an error. Without the delay, the job could end before the rank
  /// that failed first has reported its error.
  static void exit_late();
  /// Runs when the process ends by exit() or by a return from main(), after the destructors of
  /// static objects. Calls and removes `at_exit` of every session that has registered callbacks.
  /// Then waits until the delay of exit_late(), if any, has passed. Does nothing if the process has
  /// made no session, or was forked after the first one.
  static void on_exit();
  /// Whether a call of finalize() would finalise MPI now. This is the case if horo initialised MPI,
  /// MPI is still running, and this is the only open session.
  bool is_last() const;
  /// Calls unwatch() and closes the session. If is_last() was true, also finalises MPI, which waits
  /// for the other ranks. The caller must then have destroyed all other MPI objects of horo.
  void finalize();

 private:
  static int on_delete(MPI_Comm comm, int key, void* session, void* unused);
  // Closes the session, unless it is closed already. Returns whether the caller must finalise MPI.
  bool leave();

  bool is_over_ = false;
  int key_ = MPI_KEYVAL_INVALID;  // the key of an attribute of MPI_COMM_SELF
  std::function<void()> before_finalize_;
  std::function<void(int)> at_exit_;
};

}  // namespace horo::collectives
