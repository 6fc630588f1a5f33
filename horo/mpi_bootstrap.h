#pragma once

/// For programs with an MPI library that horo was not built for, or with MPI sessions. The program
/// compiles this header with its own mpi.h, and horo itself calls no MPI.
#include <mpi.h>

#include <stdexcept>

#include "horo/bootstrap.h"

namespace horo {

/// Returns a Bootstrap of the ranks of `communicator`, an intracommunicator that must exist until
/// init() has returned. MPI is called only inside init(), by the thread that calls it, so any
/// thread level of MPI is enough. The program may finalise MPI while it uses horo.
inline Bootstrap bootstrap_over(MPI_Comm communicator) {
  Bootstrap bootstrap;
  MPI_Comm_rank(communicator, &bootstrap.rank);
  MPI_Comm_size(communicator, &bootstrap.size);
  bootstrap.allgather = [communicator](std::span<const std::byte> own, std::span<std::byte> all) {
    const int count = static_cast<int>(own.size());
    if (MPI_Allgather(own.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, communicator) !=
        MPI_SUCCESS)
      throw std::runtime_error("MPI_Allgather failed in horo::init()");
  };
  return bootstrap;
}

}  // namespace horo
