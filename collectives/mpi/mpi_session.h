#pragma once

#include <mpi.h>

namespace horo::collectives {

/// Keeps MPI initialised while a job runs. Finalises it only if it initialised it.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE unless the program has. Throws CommunicationError if
  /// MPI does not offer that level, InvalidArgument if the program initialised it at a lower one.
  MpiSession();

  /// Waits for the other ranks. Called once, when no MPI object of horo is left.
  void finalize();

 private:
  bool is_owner_ = false;
};

}  // namespace horo::collectives
