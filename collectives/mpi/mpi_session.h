#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace horo::collectives {

/// Keeps MPI initialised while a job runs. If horo initialised MPI, finalize() of the last open
/// session of the process finalises MPI. Calls to one session must not overlap.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE, unless MPI is initialised already. If this
  /// constructor initialises MPI, it also sets the eager limits of Open MPI's TCP transport, so
  /// that messages of `message_bytes` need no rendezvous. It leaves the limits unchanged if the
  /// user has set one of them in the environment or on mpirun's command line. `environment` holds
  /// "NAME=VALUE" entries, among them the variables of launchers.
  ///
  /// Throws InvalidArgument if the program initialised MPI with a lower thread level. Throws
  /// CommunicationError in each of these cases: require_mpi_of_build() throws; the MPI library does
  /// not provide the thread level; MPI has been finalised before; MPI reports a world of one
  /// process although the launcher started several. Throws ShutdownError in a child process of
  /// fork().
  MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Registers callbacks, until unwatch(). `before_finalize` runs if the program calls
  /// MPI_Finalize, before MPI ends. `at_exit` runs with the exit code if the process exits while
  /// the callbacks are registered. `at_exit` may call finalize(). The caller must call watch() at
  /// most once per session.
  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit);
  /// Removes the callbacks. When this function returns, neither callback is running or will run,
  /// except that `at_exit` itself may call this function.
  void unwatch();
  /// Call this function when this process fails because another rank failed. If the process exits
  /// within the next three seconds, its exit is delayed until the three seconds have passed.
  /// Launchers end a job as soon as one process exits with an error. Without the delay, the job
  /// could end before the rank that failed first has reported its error.
  static void exit_late();
  /// Runs at process exit. Calls `at_exit` of the registered sessions. Then waits until the delay
  /// of exit_late(), if any, has passed. Does nothing in a child process of fork().
  static void on_exit();
  /// Whether a call of finalize() would finalise MPI now. This is the case if horo initialised MPI,
  /// MPI is still running, and no other session is open.
  bool is_last() const;
  /// Closes the session. If is_last(), also finalises MPI, which waits for the other ranks. The
  /// caller must first destroy all other MPI objects of horo.
  void finalize();

 private:
  static int on_delete(MPI_Comm comm, int key, void* session, void* unused);
  // Closes the session. Returns whether the session must finalise MPI.
  bool leave();

  bool is_over_ = false;
  int key_ = MPI_KEYVAL_INVALID;  // the key of an attribute of MPI_COMM_SELF
  std::function<void()> before_finalize_;
  std::function<void(int)> at_exit_;
};

}  // namespace horo::collectives
