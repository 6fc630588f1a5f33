#pragma once

#include <mpi.h>

#include <cstddef>

namespace horo::collectives {

/// Keeps MPI initialised while a job runs. Finalises it only if it initialised it.
class MpiSession {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE unless the program has. Messages over TCP of up to
  /// `message_bytes` are then sent without asking the receiver first, unless one of Open MPI's
  /// limits is set in the environment or on mpirun's command line. Throws CommunicationError if MPI
  /// does not offer that level, InvalidArgument if the program initialised it at a lower one.
  explicit MpiSession(std::size_t message_bytes);

  /// Waits for the other ranks. Called once, when no MPI object of horo is left.
  void finalize();

 private:
  bool is_owner_ = false;
};

}  // namespace horo::collectives
