#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace horo::collectives {

/// The amount of memory that a process can still allocate.
struct FreeMemory {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< the maximum: unknown
  std::string limit;  ///< its source: "this host" or "the memory limit of cgroup /job"
  /// Identifies the limit: equal in all processes of the host that share it. 0 is the limit of the
  /// host.
  std::uint64_t id = 0;
};

/// Returns the limits on the memory of this process: the memory that the host has available without
/// swapping (MemAvailable), and the remainder of each limit of the process's cgroups, where the
/// page cache counts as free. Supports cgroup versions 1 and 2. Limits that cannot be read are
/// omitted. `root` contains /proc and /sys; tests pass another directory.
std::vector<FreeMemory> find_memory_limits(const std::filesystem::path& root = "/");

/// Returns the smallest limit.
FreeMemory find_free_memory(const std::filesystem::path& root = "/");

/// The memory that a process is about to allocate, and the limits that it counts against.
struct MemoryDemand {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> limits;
};
/// Returns the bytes that all `demands` together charge to the limit `id`. Has no side effects.
std::size_t bytes_demanded_of(std::uint64_t id, std::span<const MemoryDemand> demands);

}  // namespace horo::collectives
