#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace horo::collectives {

/// Keeps MPI initialised while a job runs. If horo initialised MPI, the last session of the process
/// finalises it. Calls to one session must not overlap.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE, unless MPI is initialised already. If it initialises
  /// MPI, it also raises the eager limit of Open MPI's TCP transport to `message_bytes`, unless the
  /// user has set one of the limits in the environment or on mpirun's command line. `environment`
  /// holds "NAME=VALUE" entries, among them the variables of launchers.
  ///
  /// Throws InvalidArgument if the program initialised MPI with a lower thread level. Throws
  /// CommunicationError if the MPI library is of another family than the one that horo was built
  /// for, does not provide the thread level, has been finalised before, or reports a world of one
  /// process although the launcher started several. Throws ShutdownError in a child process of
  /// fork().
  MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Registers callbacks, until unwatch(). `before_finalize` runs if the program calls
  /// MPI_Finalize, before MPI ends. `at_exit` runs with the exit code if the process exits while
  /// the session is open. `at_exit` may call finalize(). Called at most once per session.
  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit);
  /// Removes the callbacks. After this call, neither callback is running or will run.
  void unwatch();
  /// Call this when this process fails because another rank failed. If the process exits within the
  /// next seconds, its exit is delayed until those seconds have passed. Launchers end a job when
  /// its first process exits. Without the delay, the job could end before the rank that failed
  /// first has reported its error.
  static void exit_late();
  /// Runs at process exit: calls `at_exit` of the registered sessions, and then waits if
  /// exit_late() requires it.
  static void on_exit();
  /// Whether finalize() would finalise MPI now: horo initialised it, and no other session is open.
  bool is_last() const;
  /// Closes the session. If is_last(), also finalises MPI, which waits for the other ranks. Called
  /// once, after all other MPI objects of horo are destroyed.
  void finalize();

 private:
  static int on_delete(MPI_Comm comm, int key, void* session, void* unused);
  // Closes the session. Returns whether it must finalise MPI.
  bool leave();

  bool is_over_ = false;
  int key_ = MPI_KEYVAL_INVALID;  // attribute of MPI_COMM_SELF, which MPI_Finalize deletes first
  std::function<void()> before_finalize_;
  std::function<void(int)> at_exit_;
};

}  // namespace horo::collectives
