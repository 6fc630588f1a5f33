#pragma once

namespace horo::ops {

/// Sets the number of threads of kernels that the calling thread starts; each thread has its own
/// setting. The default is OMP_NUM_THREADS, or else the number of cores. Several ranks on one node
/// should use cores / ranks per node. Results depend on this number only by rounding. Throws
/// InvalidArgument unless threads >= 1.
void set_compute_threads(int threads);
/// The setting of the calling thread.
int compute_threads();

}  // namespace horo::ops
