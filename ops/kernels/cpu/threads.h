#pragma once

namespace horo::ops {

/// Sets how many threads the kernels use when they are called from the calling thread (each thread
/// has its own setting). Without a call it is OMP_NUM_THREADS, or else the number of cores: several
/// ranks on one node should set cores / ranks per node, so that they do not oversubscribe it. The
/// same number gives the same bits; another number may round differently. Throws InvalidArgument
/// unless threads >= 1.
void set_compute_threads(int threads);
/// The number in force for the calling thread.
int compute_threads();

}  // namespace horo::ops
