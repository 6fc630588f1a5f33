#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace horo::collectives {

/// Keeps MPI initialised while a job runs. If it was horo that initialised MPI, the last session of
/// the process to be finalised finalises it. Calls to one session do not overlap.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE unless it is. Messages over TCP of up to
  /// `message_bytes` are then sent without asking the receiver first, unless one of Open MPI's
  /// limits is set in the environment or on mpirun's command line. `environment`: "NAME=VALUE"
  /// entries, in which a launcher has left its signs.
  ///
  /// Throws InvalidArgument if the program initialised MPI at a lower thread level;
  /// CommunicationError if the MPI library is of another family than the one that horo was built
  /// for, does not offer that level, has been finalised before, or knows of no other process where
  /// the launcher has started several; ShutdownError in a child process of fork().
  MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Until unwatch(): `before_finalize` runs if the program calls MPI_Finalize, before MPI ends;
  /// `at_exit` if the process exits while the session lasts, with its exit code; it may call
  /// finalize(). Once for each session.
  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit);
  /// On return neither runs, nor will.
  void unwatch();
  /// This process has failed because another has: should it exit within a moment, it does so at the
  /// end of that moment only. Launchers end a job when the first process of it exits, and the one
  /// that knows why may not have said it yet.
  static void exit_late();
  /// The process exits: runs `at_exit` of the sessions that are watched, and waits if exit_late()
  /// asks for it.
  static void on_exit();
  /// Whether finalize() would finalise MPI now: horo has initialised it, and no other session is
  /// open.
  bool is_last() const;
  /// Waits for the other ranks. Called once, when no MPI object of horo is left.
  void finalize();

 private:
  static int on_delete(MPI_Comm comm, int key, void* session, void* unused);
  // Ends the session; whether it is now up to it to finalise MPI.
  bool leave();

  bool is_over_ = false;
  int key_ = MPI_KEYVAL_INVALID;  // of an attribute that MPI_Finalize deletes first
  std::function<void()> before_finalize_;
  std::function<void(int)> at_exit_;
};

}  // namespace horo::collectives
