#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace horo::collectives {

/// How much memory a process can still allocate.
struct FreeMemory {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< the largest number: unknown
  std::string limit;  ///< what sets it: "this host", "the memory limit of cgroup /job"
  /// Identifies the limit: equal in all processes of the host that share it. 0: the host.
  std::uint64_t id = 0;
};

/// What limits the memory of this process: what the host has available without swapping
/// (MemAvailable), and what each limit of this process's cgroups leaves, where the page cache
/// counts as free. cgroup versions 1 and 2. What cannot be read sets no limit. `root`: where /proc
/// and /sys are; tests give another.
std::vector<FreeMemory> find_memory_limits(const std::filesystem::path& root = "/");

/// The smallest of them.
FreeMemory find_free_memory(const std::filesystem::path& root = "/");

/// What a process is about to allocate, and the limits that it is charged to.
struct Charge {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> limits;
};
/// Pure. The bytes that all processes of `charges` together charge to the limit `id`.
std::size_t bytes_charged_to(std::uint64_t id, std::span<const Charge> charges);

}  // namespace horo::collectives
