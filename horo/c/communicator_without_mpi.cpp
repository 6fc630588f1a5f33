// The function of the C interface that uses MPI, in builds without MPI.
#include "horo/c/status.h"

horo_status horo_init_communicator(const void*, horo_context**) {
  return horo::c::guarded([] {
    throw horo::InvalidArgument(
        "this horo was built without MPI and cannot use a communicator: build it with "
        "-DHORO_WITH_MPI=ON, or call horo_init_bootstrap()");
  });
}
