#pragma once

#include <mpi.h>

#include <cstddef>

namespace horo::bench {

/// Memory bandwidth per rank while all ranks copy, in GB/s (10^9 bytes per second).
struct MemoryLimits {
  double memcpy_gbps = 0;          ///< std::memcpy of a large buffer
  double streaming_copy_gbps = 0;  ///< the same with non-temporal stores; 0 where the CPU has none
  double core_to_core_gbps = 0;    ///< one rank writes 1 MiB, another reads it; 0 for one rank
};

/// Copies with stores that bypass the cache (std::memcpy where the CPU has none). Both pointers are
/// 16-byte aligned; `bytes` may have any value.
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes);

/// Collective over `communicator`, whose ranks share a node for core_to_core_gbps.
MemoryLimits measure_memory_limits(std::size_t bytes, MPI_Comm communicator);

}  // namespace horo::bench
