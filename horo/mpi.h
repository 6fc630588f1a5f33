#pragma once

// For programs that call MPI themselves.
#include <mpi.h>

#include "horo/context.h"

namespace horo {

/// Makes a job of the ranks of `communicator`, which must be an intracommunicator. Collective over
/// `communicator`. The caller must have initialised MPI, with any thread level. horo does not
/// finalise an MPI that the program has initialised.
///
/// With MPI_THREAD_MULTIPLE, horo sends messages on duplicates of the communicator, and the program
/// must destroy the Context and all objects made from it before it calls MPI_Finalize. If any rank
/// has a lower level, or with HORO_MESSAGES=sockets, horo calls MPI only inside init(), and the
/// program may use the Context after MPI_Finalize. Messages between nodes then use TCP, and not the
/// faster networks that MPI may support. With MPI_THREAD_FUNNELED or lower, the thread that
/// initialised MPI must call init(). With MPI_THREAD_SERIALIZED, no other thread may call MPI
/// meanwhile.
///
/// Throws InvalidArgument if MPI is not initialised, or if this thread may not call MPI. Other
/// errors are those of init() without a communicator.
Context init(MPI_Comm communicator, const InitOptions& options = {});

}  // namespace horo
