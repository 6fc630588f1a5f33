#include "collectives/mpi/mpi_session.h"

#include "collectives/mpi/mpi_handles.h"
#include "horo/base/error.h"

namespace horo::collectives {

MpiSession::MpiSession() {
  int provided = MPI_THREAD_SINGLE;
  if (mpi_is_running()) {
    HORO_MPI(MPI_Query_thread(&provided));
    HORO_CHECK(
        provided >= MPI_THREAD_MULTIPLE,
        "the program initialised MPI without MPI_THREAD_MULTIPLE, which horo's threads need: call "
        "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or leave MPI to horo::init()");
    return;
  }
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
