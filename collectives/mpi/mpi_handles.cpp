#include "collectives/mpi/mpi_handles.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"

namespace horo {

MpiComm::MpiComm(MPI_Comm comm) : comm_(comm) {
  if (comm_ != MPI_COMM_NULL) HORO_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
}

MpiComm::MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

MpiComm& MpiComm::operator=(MpiComm&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

MpiComm::~MpiComm() {
  if (comm_ == MPI_COMM_NULL || !mpi_is_running()) return;
  if (MPI_Comm_free(&comm_) != MPI_SUCCESS) log_warning("cannot free an MPI communicator");
}

// MPI_Comm_dup would block without a timeout if a rank did not call it. MPI_Comm_idup returns a
// request that can be polled. MPI may write the new handle at any time until the operation
// completes, so the handle is in an MpiBuffer.
MpiComm MpiComm::duplicate_of(MPI_Comm parent, const WaitPolicy& policy, std::string_view what) {
  MpiBuffer<MPI_Comm> duplicate(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Comm_idup(parent, &*duplicate, &request));
  wait_for_mpi(request, policy, what);
  return MpiComm(*duplicate);
}

int MpiComm::rank() const {
  int rank = 0;
  HORO_MPI(MPI_Comm_rank(comm_, &rank));
  return rank;
}

int MpiComm::size() const {
  int size = 0;
  HORO_MPI(MPI_Comm_size(comm_, &size));
  return size;
}

void wait_for_mpi(MPI_Request& request, const WaitPolicy& policy, std::string_view what) {
  for (Waiter waiter(policy);; waiter.pause(what)) {
    int is_done = 0;
    HORO_MPI(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
    if (is_done) return;
  }
}

bool mpi_is_running() {
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  return is_initialized && !is_finalized;
}

namespace detail {

void check_mpi(int result, const char* expression, SourceLocation where) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(result, text, &length);
  // MPI may not be running, because the failed call may be MPI_Init_thread.
  int rank = -1;
  if (mpi_is_running()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw CommunicationError(fmt::format("MPI failed on rank {}: {}: {} ({}:{})", rank, expression,
                                       text, where.file_name(), where.line()));
}

}  // namespace detail

}  // namespace horo
