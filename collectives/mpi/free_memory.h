#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>

namespace horo::collectives {

/// How much memory a process can still allocate.
struct FreeMemory {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< the largest number: unknown
  std::string limit;  ///< what sets it: "this host", "the memory limit of cgroup /job"
};

/// The smaller of what the host has available without swapping (MemAvailable) and what the memory
/// limits of this process's cgroups leave, where the page cache counts as free. cgroup versions 1
/// and 2. What cannot be read sets no limit. `root`: where /proc and /sys are; tests give another.
FreeMemory find_free_memory(const std::filesystem::path& root = "/");

}  // namespace horo::collectives
