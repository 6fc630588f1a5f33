#include <mpi.h>

#include "examples/benchmarks/peers/peer_library.h"

namespace horo::bench::peer_library {

void start(int* argc, char*** argv) { MPI_Init(argc, argv); }

void stop() { MPI_Finalize(); }

void sum(float* values, std::size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace horo::bench::peer_library
