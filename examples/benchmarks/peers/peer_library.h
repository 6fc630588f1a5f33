#pragma once

#include <cstddef>

/// The library that allreduce_peer measures: MPI (peer_library_mpi.cpp) or oneCCL
/// (peer_library_oneccl.cpp). MPI starts the ranks in both cases.
namespace horo::bench::peer_library {

/// Initializes MPI and the library. Collective over all ranks.
void start(int* argc, char*** argv);
/// Collective over all ranks.
void stop();
/// Sums `count` values over all ranks, in place. Returns when the sums are in `values`.
void sum(float* values, std::size_t count);

}  // namespace horo::bench::peer_library
