// The forms of init() that use MPI, in builds without MPI.
#include "horo/base/error.h"
#include "horo/init/init_steps.h"

namespace horo {

bool is_mpi_in_use() { return false; }

Context join_mpi_world(InitInput) {
  throw CommunicationError(
      "a launcher of MPI started this process, and this horo was built without MPI: build it with "
      "-DHORO_WITH_MPI=ON, or call horo::init(bootstrap)");
}

}  // namespace horo
