#pragma once

#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/base/device/host_device.h"
#include "horo/base/device/stream.h"
#if defined(__CUDACC__)
#include "horo/base/device/cuda_check.h"
#endif

// Kernels are written once, as a struct of their arguments with an operator() for one thread (or,
// as a BlockKernel, with its phases), in a .cu file. nvcc makes a kernel of it; with nvcc or
// without, the host can run it.
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

/// A kernel whose threads work together, block by block, in kPhases phases:
///   template <unsigned kPhase>
///   HORO_KERNEL void phase(const Place&, Shared&, Own&) const;
/// No thread of a block begins a phase before all have ended the one before, and only then sees
/// what they have written. Shared is the block's: trivial, of any content at first, at most 48 KiB.
/// Own is a thread's, in registers, value-initialised at first.
template <typename Kernel>
concept BlockKernel = requires {
  { Kernel::kPhases } -> std::convertible_to<unsigned>;
  typename Kernel::Shared;
  typename Kernel::Own;
};

/// A block of a kernel on the host, phase after phase. Every other phase begins with the last
/// thread, in every other block the others do, and shared memory is full of NaN at first: what
/// leans on an order, or on zeros, shows.
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
      kernel.template phase<kPhase>(Place{block, grid.blocks, thread, grid.threads}, shared,
                                    own[thread]);
    }
  };
  [&]<unsigned... kPhase>(std::integer_sequence<unsigned, kPhase...>) {
    (run(std::integral_constant<unsigned, kPhase>{}), ...);
  }
  (std::make_integer_sequence<unsigned, Kernel::kPhases>{});
}

/// In the place of a table (launch()), where there is none.
struct NoTable {};

/// One thread of a kernel that is no BlockKernel.
template <typename Kernel, typename Table>
HORO_KERNEL void run_thread(const Kernel& kernel, const Place& place, const Table& table) {
  if constexpr (std::is_same_v<Table, NoTable>)
    kernel(place);
  else
    kernel(place, table);
}

/// A kernel on the host, block after block.
template <typename Kernel, typename Table>
void run_on_host(const Grid& grid, const Kernel& kernel, const Table& table) {
  for (unsigned block = 0; block < grid.blocks; ++block) {
    if constexpr (BlockKernel<Kernel>) {
      run_block_on_host(grid, kernel, block);
    } else {
      for (unsigned thread = 0; thread < grid.threads; ++thread)
        run_thread(kernel, Place{block, grid.blocks, thread, grid.threads}, table);
    }
  }
}

#if defined(__CUDACC__)
template <unsigned kPhase, typename Kernel>
__device__ void run_phases(const Kernel& kernel, const Place& place,
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
  const Place place{blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
  if constexpr (BlockKernel<Kernel>) {
    __shared__ typename Kernel::Shared shared;
    typename Kernel::Own own{};
    run_phases<0>(kernel, place, shared, own);
  } else {
    run_thread(kernel, place, table);
  }
}
#endif

/// Runs `kernel` on the stream, with its arguments by value (at most 32,764 bytes): the caller need
/// not keep them. What is large and the same in many launches may be an argument beside it, of
/// which the launch's own copy is the only one: operator()(place, table). Does not block.
template <typename Kernel, typename Table = NoTable>
void launch(Stream& stream, const Grid& grid, const Kernel& kernel, const Table& table = {}) {
  static_assert(sizeof(Kernel) + sizeof(Table) <= 32764,
                "the arguments of a kernel have no more room");
  static_assert(std::is_same_v<Table, NoTable> || !BlockKernel<Kernel>, "phases take no table");
  if (grid.blocks == 0) return;
  if (is_host(stream))
    return submit_kernel(stream, [grid, kernel, own = std::make_shared<const Table>(table)] {
      run_on_host(grid, kernel, *own);
    });
#if defined(__CUDACC__)
  // By address: a call with <<<>>> copies the arguments once more on its way.
  void* arguments[] = {const_cast<Kernel*>(&kernel), const_cast<Table*>(&table)};
  HORO_CUDA(cudaLaunchKernel(&run_on_gpu<Kernel, Table>, dim3(grid.blocks), dim3(grid.threads),
                             arguments, 0, static_cast<cudaStream_t>(stream.native())));
#endif
}

/// Loads the kernel that launch() of the same types starts, which CUDA would do at the first
/// launch: that may wait for what the GPU is at, and where this is a collective whose peer waits
/// for this rank's launch, for ever. Makes the device the calling thread's current one. Does
/// nothing on the stand-in.
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
