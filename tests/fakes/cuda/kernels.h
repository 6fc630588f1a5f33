// Included before every kernel file (.cu) that the C++ compiler compiles for the fake CUDA. Takes
// the place of nvcc's language: a launch passes the kernel to the fake, which runs it on the host
// as run_on_host() does.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <functional>
#include <string>

namespace horo::fakes {

/// Submits a kernel, whose blocks `run` executes, after checks of the arguments.
cudaError_t launch_kernel(const char* type, dim3 blocks, dim3 threads, cudaStream_t stream,
                          std::function<void()> run);

}  // namespace horo::fakes

// From here on, the code looks as it does to nvcc when it compiles for the host.
#define __CUDACC__
#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __grid_constant__
#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__

inline const dim3 blockIdx, gridDim, threadIdx, blockDim;
inline void __syncthreads() {}

template <typename Kernel, typename Table>
cudaError_t cudaLaunchKernel(void (*kernel)(Kernel, Table), dim3 blocks, dim3 threads,
                             void** arguments, std::size_t shared_bytes, cudaStream_t stream);
template <typename Function>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function* function) {
  return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(function));
}

#include "horo/device/launch.h"

template <typename Kernel, typename Table>
cudaError_t cudaLaunchKernel(void (*)(Kernel, Table), dim3 blocks, dim3 threads, void** arguments,
                             std::size_t, cudaStream_t stream) {
  return horo::fakes::launch_kernel(__PRETTY_FUNCTION__, blocks, threads, stream,
                                    [grid = horo::device::Grid{blocks.x, threads.x},
                                     kernel = *static_cast<const Kernel*>(arguments[0]),
                                     table = *static_cast<const Table*>(arguments[1])] {
                                      horo::device::run_on_host(grid, kernel, table);
                                    });
}
