#pragma once

/// For programs that call MPI themselves.
#include <mpi.h>

#include "horo/context.h"

namespace horo {

/// Makes a job of the ranks of `communicator`, an intracommunicator. Collective over it. The caller
/// has initialised MPI with MPI_THREAD_MULTIPLE. horo works on duplicates of the communicator and
/// never finalises MPI. Destroy the context before MPI_Finalize. Throws InvalidArgument if MPI is
/// not initialised or has a lower thread level; otherwise throws as init() does.
Context init(MPI_Comm communicator, const InitOptions& options = {});

}  // namespace horo
