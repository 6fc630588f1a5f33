#pragma once

// For programs that call MPI themselves.
#include <mpi.h>

#include "horo/context.h"

namespace horo {

/// Makes a job of the ranks of `communicator`, which must be an intracommunicator. Collective over
/// `communicator`. The caller must have initialised MPI with MPI_THREAD_MULTIPLE. horo works on
/// duplicates of the communicator. horo does not finalise an MPI that the program has initialised.
/// The program must destroy the Context and all objects made from it before it calls MPI_Finalize.
/// Throws InvalidArgument if MPI is not initialised or has a lower thread level. Other errors are
/// those of init() without a communicator.
Context init(MPI_Comm communicator, const InitOptions& options = {});

}  // namespace horo
