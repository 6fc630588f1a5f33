// The function of the C interface that uses MPI.
#include "horo/c/objects.h"
#include "horo/c/status.h"
#include "horo/mpi.h"

using horo::c::required;

horo_status horo_init_communicator(const void* communicator, horo_context** context) {
  return horo::c::guarded([&] {
    const auto& comm = required(static_cast<const MPI_Comm*>(communicator),
                                "horo_init_communicator", "communicator");
    horo_context*& result = required(context, "horo_init_communicator", "context");
    result = new horo_context{horo::init(comm)};
  });
}
