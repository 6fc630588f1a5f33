#pragma once

#include <mpi.h>

#include <exception>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>

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
  /// `parent`; throws CommunicationError if the other ranks do not join in time. `what`: see
  /// wait_for_mpi().
  static MpiComm duplicate_of(MPI_Comm parent, const WaitPolicy& policy,
                              std::string_view what = "for all ranks to make a communicator");

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

/// What a non-blocking MPI operation reads or writes. When an exception unwinds, the memory is
/// given up and not freed, since MPI may still use it.
template <typename T>
class MpiBuffer {
 public:
  explicit MpiBuffer(T value = T()) : value_(std::make_unique<T>(std::move(value))) {}
  ~MpiBuffer() {
    if (std::uncaught_exceptions() > exceptions_at_start_) (void)value_.release();
  }
  MpiBuffer(const MpiBuffer&) = delete;
  MpiBuffer& operator=(const MpiBuffer&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace horo

/// Evaluates an MPI call once; throws CommunicationError with the call, MPI's own text, the rank
/// and the place if it fails.
#define HORO_MPI(call) ::horo::detail::check_mpi((call), #call)
