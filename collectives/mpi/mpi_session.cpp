#include "collectives/mpi/mpi_session.h"

#include <cstdlib>
#include <string>

#include "collectives/mpi/mpi_handles.h"
#include "horo/base/error.h"

namespace horo::collectives {

namespace {

// Open MPI asks before it sends a TCP message of more than 64 KiB: a round trip for which both
// ranks need their cores, while the link rests. The receives of a ring are posted ahead, so its
// segments need no asking. Open MPI reads its parameters from the environment.
void send_without_asking(std::size_t message_bytes) {
  constexpr std::size_t kHeaders = 4096;
  const std::string limit = std::to_string(message_bytes + kHeaders);
  const char* const names[] = {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit",
                               "OMPI_MCA_btl_tcp_max_send_size"};
  for (const char* name : names)
    if (getenv(name) != nullptr) return;
  for (const char* name : names) setenv(name, limit.c_str(), 0);
}

}  // namespace

MpiSession::MpiSession(std::size_t message_bytes) {
  int provided = MPI_THREAD_SINGLE;
  if (mpi_is_running()) {
    HORO_MPI(MPI_Query_thread(&provided));
    HORO_CHECK(
        provided >= MPI_THREAD_MULTIPLE,
        "the program initialised MPI without MPI_THREAD_MULTIPLE, which horo's threads need: call "
        "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or leave MPI to horo::init()");
    return;
  }
  send_without_asking(message_bytes);
  HORO_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  is_owner_ = true;
  if (provided < MPI_THREAD_MULTIPLE)
    throw CommunicationError(
        "this MPI library does not offer MPI_THREAD_MULTIPLE, which horo's threads need");
}

void MpiSession::finalize() {
  if (is_owner_ && mpi_is_running()) MPI_Finalize();
}

}  // namespace horo::collectives
