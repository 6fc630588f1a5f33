#pragma once

/// For programs that use MPI themselves.
#include <mpi.h>

#include "horo/context.h"

namespace horo {

/// Joins the ranks of `communicator` (an intracommunicator of an initialised MPI with
/// MPI_THREAD_MULTIPLE), of which horo works on duplicates. Collective over it. MPI stays the
/// caller's: horo does not finalise it, and the context must be gone before the caller does. Throws
/// InvalidArgument if MPI is not initialised at that thread level; otherwise as init().
Context init(MPI_Comm communicator, const InitOptions& options = {});

}  // namespace horo
