#pragma once

#include <cstdint>

#include "horo/base/device/host_device.h"
#include "horo/base/device/stream.h"
#if defined(__CUDACC__)
#include "horo/base/device/cuda_check.h"
#endif

// Kernels are written once, as a struct of their arguments with an operator() for one thread, in a
// .cu file. nvcc makes a kernel of it; with nvcc or without, the host can run it.
#if defined(__CUDACC__)
#define HORO_KERNEL __host__ __device__
#else
#define HORO_KERNEL
#endif

namespace horo::device {

/// How many threads run a kernel: `blocks` blocks of `threads` threads each.
struct Grid {
  unsigned blocks;
  unsigned threads;
};

/// Which of them one is.
struct Place {
  unsigned block, blocks;
  unsigned thread, threads;
};

/// A kernel on the host, thread after thread: for kernels whose threads do not wait for each other.
template <typename Kernel>
void run_on_host(const Grid& grid, const Kernel& kernel) {
  for (unsigned block = 0; block < grid.blocks; ++block)
    for (unsigned thread = 0; thread < grid.threads; ++thread)
      kernel(Place{block, grid.blocks, thread, grid.threads});
}

#if defined(__CUDACC__)
template <typename Kernel>
__global__ void run_on_gpu(const __grid_constant__ Kernel kernel) {
  kernel(Place{blockIdx.x, gridDim.x, threadIdx.x, blockDim.x});
}
#endif

/// Runs `kernel` on the stream, with its arguments by value (at most 32,764 bytes): the caller need
/// not keep them. Does not block.
template <typename Kernel>
void launch(Stream& stream, const Grid& grid, const Kernel& kernel) {
  static_assert(sizeof(Kernel) <= 32764, "the arguments of a kernel have no more room");
  if (grid.blocks == 0) return;
  if (is_host(stream)) return submit(stream, [grid, kernel] { run_on_host(grid, kernel); });
#if defined(__CUDACC__)
  run_on_gpu<<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream.native())>>>(kernel);
  HORO_CUDA(cudaGetLastError());
#endif
}

}  // namespace horo::device
