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
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< the maximum value if unknown
  std::string limit;  ///< the text "this host" or "the memory limit of cgroup /job"
  /// Identifies the limit. All processes of the host that share the limit have the same id. The
  /// limit of the host itself has id 0.
  std::uint64_t id = 0;
};

/// Returns the limits on the memory of this process. The first is the memory that the host can
/// provide without swapping (MemAvailable). The others are the free memory within the limits of the
/// process's cgroups and their ancestors. File cache is regarded as free memory. Supports cgroup
/// versions 1 and 2. Omits limits that cannot be read. `root` contains /proc and /sys; tests pass
/// another directory.
std::vector<FreeMemory> find_memory_limits(const std::filesystem::path& root = "/");

/// Returns the smallest of these limits.
FreeMemory find_free_memory(const std::filesystem::path& root = "/");

/// The memory that a process is about to allocate, and the ids of the limits that apply to the
/// process.
struct MemoryDemand {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> limits;
};
/// Returns the bytes that all `demands` together charge to the limit `id`. Has no side effects.
std::size_t bytes_demanded_of(std::uint64_t id, std::span<const MemoryDemand> demands);

}  // namespace horo::collectives
