#pragma once

#include <cstddef>
#include <functional>
#include <memory>
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
  /// Throws InvalidArgument if the thread level of MPI forbids that this thread calls MPI. Throws
  /// CommunicationError in each of these cases: require_mpi_of_build() throws; MPI has already been
  /// finalised; MPI reports a world of one process although the launcher started several; an MPI
  /// call fails.
  MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether several threads may call MPI at the same time.
  bool allows_threads() const { return allows_threads_; }
  /// Registers a function until unwatch(). If the program calls MPI_Finalize, `before_finalize`
  /// runs inside that call while MPI still works. The caller must call watch_finalize() at most
  /// once.
  void watch_finalize(std::function<void()> before_finalize);
  /// Removes the function. No other thread may be in MPI_Finalize during the call.
  void unwatch();
  /// Whether a call of finalize() would finalise MPI now. This is the case if horo initialised MPI,
  /// MPI is still running, and this is the only open session.
  bool is_last() const;
  /// Calls unwatch() and closes the session. If is_last() was true, also finalises MPI, which waits
  /// for the other ranks. The caller must then have destroyed all other MPI objects of horo.
  void finalize();

 private:
  // Closes the session, unless it is closed already. Returns whether the caller must finalise MPI.
  bool leave();

  bool is_over_ = false;
  bool allows_threads_ = false;
  int key_;  // the key of an attribute of MPI_COMM_SELF, or MPI_KEYVAL_INVALID
  // The attribute refers to this memory. Owned by MPI if the attribute cannot be deleted.
  std::unique_ptr<std::function<void()>> before_finalize_;
};

}  // namespace horo::collectives
