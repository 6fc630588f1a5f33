#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace horo::collectives {

/// The memory that is free within one limit. The limit is that of the host or of a cgroup.
struct FreeMemory {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< the largest value if unknown
  std::string limit;  ///< "this host", "the memory limit of cgroup /job", or "" if unknown
  /// Identifies the limit. Processes of the same host and the same cgroup namespace have the same
  /// id for the same limit. In another cgroup namespace, a limit has another id. The limit of the
  /// host has id 0.
  std::uint64_t id = 0;
};

/// Returns the free memory within each limit that applies to this process: first the memory that
/// the host can provide without swapping (MemAvailable), then the limits of the cgroups of the
/// process and of their ancestors. File cache counts as free memory. Supports cgroup versions 1 and
/// 2. Omits limits that cannot be read. `root` is the directory that contains proc and sys; tests
/// pass another one.
std::vector<FreeMemory> find_memory_limits(const std::filesystem::path& root = "/");

/// Returns the entry of find_memory_limits() with the least free memory. If there is no entry, the
/// result is unknown.
FreeMemory find_free_memory(const std::filesystem::path& root = "/");

/// The memory that a process is about to allocate, and the ids of the limits that apply to the
/// process.
struct MemoryDemand {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> limits;
};
/// Returns the sum of the bytes of those `demands` to which the limit `id` applies.
std::size_t bytes_demanded_of(std::uint64_t id, std::span<const MemoryDemand> demands);

}  // namespace horo::collectives
