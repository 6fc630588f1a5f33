#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "horo/context.h"

namespace horo {

/// How the ranks of a job find each other, for programs whose processes horo does not connect
/// itself: processes of another launcher, or an MPI library that horo was not built for.
/// horo/mpi_bootstrap.h makes one from a communicator of any MPI.
struct Bootstrap {
  int rank = 0;  ///< of this process, 0 ... size - 1
  int size = 1;  ///< the number of ranks of the job
  /// Copies `own` of every rank into `all`, in rank order. `own` has the same size on all ranks,
  /// and `all` has `size` times as many bytes. Collective. An exception ends init(), but the other
  /// ranks may then wait in their call.
  std::function<void(std::span<const std::byte> own, std::span<std::byte> all)> allgather;
};

/// Joins a job of `bootstrap.size` ranks. Collective. Calls `bootstrap.allgather` a few times on
/// the calling thread, the same number of times on all ranks, and never after init() has returned.
/// The ranks then exchange messages over horo's own sockets: TCP between nodes, on any free port,
/// and Unix sockets inside a node. Neither MPI nor a launcher of MPI is needed. Throws
/// InvalidArgument if `bootstrap` has no function, or if the rank is outside of the job. Throws
/// CommunicationError if the processes cannot connect. Other errors are those of init() without a
/// bootstrap.
Context init(const Bootstrap& bootstrap, const InitOptions& options = {});

}  // namespace horo
