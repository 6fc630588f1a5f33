#pragma once

#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/device/device.h"
#include "horo/device/host/host_device.h"
#include "horo/device/stream.h"
#if defined(__CUDACC__)
#include "horo/device/cuda/cuda_check.h"
#endif

// A kernel is a struct whose members are its arguments. The struct has an operator() for one
// thread, or, if the kernel is a BlockKernel, one function for each phase. A kernel is written
// once, in a .cu file. nvcc compiles the kernel for the GPU. With or without nvcc, the host can run
// the kernel.
#if defined(__CUDACC__)
#define HORO_KERNEL __host__ __device__
#else
#define HORO_KERNEL
#endif

namespace horo::device {

/// The number of threads of a launch: `blocks` blocks of `threads` threads each.
struct Grid {
  unsigned blocks;
  unsigned threads;
};

/// The index of one of these threads.
struct ThreadIndex {
  unsigned block, blocks;
  unsigned thread, threads;
};

/// A kernel whose threads cooperate, block by block, in kPhases phases:
///   template <unsigned kPhase>
///   HORO_KERNEL void phase(const ThreadIndex&, Shared&, Own&) const;
/// A barrier of the block separates the phases. A thread sees all writes of the previous phases,
/// and must not rely on writes of other threads in the same phase. The threads of a block share one
/// Shared, a trivial type of at most 48 KiB whose initial value is undefined. Each thread has an
/// Own in registers, initially value-initialised.
template <typename Kernel>
concept BlockKernel = requires {
  { Kernel::kPhases } -> std::convertible_to<unsigned>;
  typename Kernel::Shared;
  typename Kernel::Own;
};

/// Runs a block of a kernel on the host, phase after phase. The order of the threads alternates
/// between phases and between blocks, and shared memory initially contains NaN. Code that relies on
/// an order or on zeros then fails.
template <BlockKernel Kernel>
void run_block_on_host(const Grid& grid, const Kernel& kernel, unsigned block) {
  using Shared = typename Kernel::Shared;
  static_assert(std::is_trivial_v<Shared> && sizeof(Shared) <= 48 * 1024);
  std::vector<typename Kernel::Own> own(grid.threads);
  std::vector<Shared> memory(1);
  Shared& shared = memory.front();
  std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);
  const auto run = [&]<unsigned kPhase>(std::integral_constant<unsigned, kPhase>) {
    for (unsigned i = 0; i < grid.threads; ++i) {
      const unsigned thread = (kPhase + block) % 2 == 0 ? i : grid.threads - 1 - i;
      kernel.template phase<kPhase>(ThreadIndex{block, grid.blocks, thread, grid.threads}, shared,
                                    own[thread]);
    }
  };
  [&]<unsigned... kPhase>(std::integer_sequence<unsigned, kPhase...>) {
    (run(std::integral_constant<unsigned, kPhase>{}), ...);
  }
  (std::make_integer_sequence<unsigned, Kernel::kPhases>{});
}

/// The table type of a kernel that takes no table; see launch().
struct NoTable {};

/// Runs one thread of a kernel that is not a BlockKernel.
template <typename Kernel, typename Table>
HORO_KERNEL void run_thread(const Kernel& kernel, const ThreadIndex& place, const Table& table) {
  if constexpr (std::is_same_v<Table, NoTable>)
    kernel(place);
  else
    kernel(place, table);
}

/// Runs a kernel on the host, block after block.
template <typename Kernel, typename Table>
void run_on_host(const Grid& grid, const Kernel& kernel, const Table& table) {
  for (unsigned block = 0; block < grid.blocks; ++block) {
    if constexpr (BlockKernel<Kernel>) {
      run_block_on_host(grid, kernel, block);
    } else {
      for (unsigned thread = 0; thread < grid.threads; ++thread)
        run_thread(kernel, ThreadIndex{block, grid.blocks, thread, grid.threads}, table);
    }
  }
}

#if defined(__CUDACC__)
template <unsigned kPhase, typename Kernel>
__device__ void run_phases(const Kernel& kernel, const ThreadIndex& place,
                           typename Kernel::Shared& shared, typename Kernel::Own& own) {
  kernel.template phase<kPhase>(place, shared, own);
  if constexpr (kPhase + 1 < Kernel::kPhases) {
    __syncthreads();
    run_phases<kPhase + 1>(kernel, place, shared, own);
  }
}

template <typename Kernel, typename Table>
__global__ void run_on_gpu(const __grid_constant__ Kernel kernel,
                           const __grid_constant__ Table table) {
  const ThreadIndex place{blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
  if constexpr (BlockKernel<Kernel>) {
    __shared__ typename Kernel::Shared shared;
    typename Kernel::Own own{};
    run_phases<0>(kernel, place, shared, own);
  } else {
    run_thread(kernel, place, table);
  }
}
#endif

/// Runs `kernel` on the stream. The arguments are passed by value (at most 32,764 bytes), so the
/// caller need not keep them. A large table that many launches share may be passed separately, to
/// avoid a copy in the kernel struct. The kernel then has operator()(place, table). Does not block.
template <typename Kernel, typename Table = NoTable>
void launch(Stream& stream, const Grid& grid, const Kernel& kernel, const Table& table = {}) {
  static_assert(sizeof(Kernel) + sizeof(Table) <= 32764,
                "the arguments of a kernel exceed 32,764 bytes");
  static_assert(std::is_same_v<Table, NoTable> || !BlockKernel<Kernel>,
                "a BlockKernel takes no table");
  if (grid.blocks == 0) return;
  if (is_host(stream))
    return submit_kernel(stream, [grid, kernel, own = std::make_shared<const Table>(table)] {
      run_on_host(grid, kernel, *own);
    });
#if defined(__CUDACC__)
  // Passes the arguments by address: the <<<>>> syntax would copy them once more.
  void* arguments[] = {const_cast<Kernel*>(&kernel), const_cast<Table*>(&table)};
  HORO_CUDA(cudaLaunchKernel(&run_on_gpu<Kernel, Table>, dim3(grid.blocks), dim3(grid.threads),
                             arguments, 0, static_cast<cudaStream_t>(stream.native())));
#endif
}

/// Loads the kernel that launch() of the same types starts. Otherwise CUDA would load the kernel at
/// the first launch, which may wait for running kernels. If a running kernel is a collective whose
/// peer waits for a launch of this rank, the wait is a deadlock. Makes `device` the current device
/// of the calling thread. Does nothing on the host stand-in.
template <typename Kernel, typename Table = NoTable>
void load_kernel(Device& device) {
  if (is_host(device)) return;
#if defined(__CUDACC__)
  device.make_current();
  cudaFuncAttributes attributes{};
  HORO_CUDA(cudaFuncGetAttributes(&attributes, &run_on_gpu<Kernel, Table>));
#endif
}

}  // namespace horo::device
