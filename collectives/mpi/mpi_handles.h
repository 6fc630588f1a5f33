#pragma once

#include <mpi.h>

#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "horo/base/source_location.h"
#include "horo/base/wait.h"

namespace horo {

/// Owns a communicator. MPI calls on the communicator return errors (see HORO_MPI) instead of
/// aborting the process. The destructor frees the communicator, unless MPI has already been
/// finalised. All ranks must free their communicators in the same order. This class adds no locks:
/// the rules of MPI apply to calls on one communicator from several threads.
class MpiComm {
 public:
  MpiComm() = default;
  /// Takes ownership of `comm`.
  explicit MpiComm(MPI_Comm comm);
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;
  ~MpiComm();

  /// Returns a duplicate of `parent`. Messages of the duplicate are isolated from those of all
  /// other communicators. Collective over `parent`. Throws CommunicationError if not all ranks make
  /// this call before the timeout. See wait_for_mpi() for `policy` and `what`.
  static MpiComm duplicate_of(MPI_Comm parent, const WaitPolicy& policy,
                              std::string_view what = "for all ranks to make a communicator");

  MPI_Comm get() const { return comm_; }
  int rank() const;
  int size() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Waits for a nonblocking operation, with the timeout and the abort signal of `policy`. `what`
/// completes the error text "waited 5 min ...". If this function throws, MPI may still use the
/// buffers of the request, so they must stay allocated (see MpiBuffer).
void wait_for_mpi(MPI_Request& request, const WaitPolicy& policy, std::string_view what);

/// Whether MPI is initialised and not finalised.
bool mpi_is_running();

namespace detail {
void check_mpi(int result, const char* expression,
               SourceLocation where = SourceLocation::current());
}  // namespace detail

/// The buffer of a nonblocking MPI operation. If the destructor runs because of an exception, it
/// leaks the memory instead of freeing it, because MPI may still use the memory.
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

/// Evaluates an MPI call once. If the call fails, throws CommunicationError with the call, MPI's
/// error text, the rank in MPI_COMM_WORLD and the source location.
#define HORO_MPI(call) ::horo::detail::check_mpi((call), #call)
