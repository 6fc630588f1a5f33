#pragma once

#include <mpi.h>

#include <source_location>
#include <string_view>

#include "horo/base/wait.h"

namespace horo {

/// Owns a communicator. Errors of calls on it are returned (see HORO_MPI), not fatal. Freed by the
/// destructor, unless MPI has been finalised before; all ranks free their communicators in the same
/// order. Calls on one communicator from several threads follow MPI's own rules.
class MpiComm {
 public:
  MpiComm() = default;
  /// Takes over `comm`.
  explicit MpiComm(MPI_Comm comm);
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;
  ~MpiComm();

  /// A duplicate of `parent`: traffic on it is seen on no other communicator. Collective over
  /// `parent`; throws CommunicationError if the other ranks do not join in time.
  static MpiComm duplicate_of(MPI_Comm parent, const WaitPolicy& policy);

  MPI_Comm get() const { return comm_; }
  int rank() const;
  int size() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Waits for a nonblocking call. `what` completes "waited 5min ..." in the error; after an error
/// the request is abandoned, and its buffers must stay.
void wait_for_mpi(MPI_Request& request, const WaitPolicy& policy, std::string_view what);

/// Whether MPI functions may be called at all: initialised and not finalised.
bool mpi_is_running();

namespace detail {
void check_mpi(int result, const char* expression,
               std::source_location where = std::source_location::current());
}  // namespace detail

}  // namespace horo

/// Evaluates an MPI call once; throws CommunicationError with the call, MPI's own text, the rank
/// and the place if it fails.
#define HORO_MPI(call) ::horo::detail::check_mpi((call), #call)
