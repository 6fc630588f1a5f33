#include "collectives/node_memory/free_memory.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "horo/base/hash.h"

namespace horo::collectives {
namespace {

using std::filesystem::path;

// The file names of the memory controller in one cgroup version.
struct MemoryController {
  const char* folder;  // below /sys/fs/cgroup
  const char *limit, *usage;
  const char *active_file, *inactive_file;  // keys of memory.stat
};
constexpr MemoryController kVersion1 = {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_active_file", "total_inactive_file"};
constexpr MemoryController kVersion2 = {"", "memory.max", "memory.current", "active_file",
                                        "inactive_file"};

// Returns nullopt if the file cannot be read or does not begin with a number, as in "max".
std::optional<std::size_t> read_number(const path& file) {
  std::ifstream stream(file);
  std::size_t number = 0;
  if (!(stream >> number)) return std::nullopt;
  return number;
}

// Returns the number after the first word of the line whose first word is `key`.
std::optional<std::size_t> read_value(const path& file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string word;
    std::size_t number = 0;
    if (words >> word && word == key && words >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::size_t> room_of_group(const path& group, const MemoryController& controller) {
  const auto limit = read_number(group / controller.limit);
  const auto usage = read_number(group / controller.usage);
  if (!limit || !usage) return std::nullopt;
  std::size_t cache = 0;
  for (const char* key : {controller.active_file, controller.inactive_file})
    cache += read_value(group / "memory.stat", key).value_or(0);
  // The kernel reclaims file cache under memory pressure, so the cache does not count as used.
  const std::size_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

// The id includes the cgroup namespace, because groups of different namespaces may have the same
// name.
std::uint64_t id_of_group(const path& root, const MemoryController& controller, const path& group) {
  std::error_code error;
  const path space = std::filesystem::read_symlink(root / "proc/self/ns/cgroup", error);
  return Hash().add(space.native()).add(controller.folder).add(group.native()).value();
}

// Adds the limits of the group `name` and of all its ancestors, because the limit of a group
// applies to all groups below that group. In a container, the path that the kernel reports may not
// exist below /sys/fs/cgroup. The loop then still reads the topmost folder, which is the group of
// the container.
void add_groups(const path& root, const MemoryController& controller, const std::string& name,
                std::vector<FreeMemory>& limits) {
  const path top = root / "sys/fs/cgroup" / controller.folder;
  for (path group = path(name).relative_path();; group = group.parent_path()) {
    if (const auto room = room_of_group(group.empty() ? top : top / group, controller))
      limits.push_back({*room, "the memory limit of cgroup /" + group.string(),
                        id_of_group(root, controller, group)});
    if (group.empty()) return;
  }
}

// Adds the limits for a line of /proc/self/cgroup, for example "4:memory:/job" (version 1) or
// "0::/job" (version 2).
void add_line(const path& root, const std::string& line, std::vector<FreeMemory>& limits) {
  const std::size_t first = line.find(':');
  if (first == std::string::npos) return;
  const std::size_t second = line.find(':', first + 1);
  if (second == std::string::npos) return;
  const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
  const std::string name = line.substr(second + 1);
  if (controllers == ",,") add_groups(root, kVersion2, name, limits);
  if (controllers.find(",memory,") != std::string::npos) add_groups(root, kVersion1, name, limits);
}

}  // namespace

std::vector<FreeMemory> find_memory_limits(const path& root) {
  std::vector<FreeMemory> limits;
  if (const auto kib = read_value(root / "proc/meminfo", "MemAvailable:"))
    limits.push_back({*kib * 1024, "this host"});
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) add_line(root, line, limits);
  return limits;
}

FreeMemory find_free_memory(const path& root) {
  const std::vector<FreeMemory> limits = find_memory_limits(root);
  const auto smallest = std::ranges::min_element(limits, {}, &FreeMemory::bytes);
  return smallest == limits.end() ? FreeMemory() : *smallest;
}

std::size_t bytes_demanded_of(std::uint64_t id, std::span<const MemoryDemand> demands) {
  std::size_t bytes = 0;
  for (const MemoryDemand& demand : demands)
    if (std::ranges::find(demand.limits, id) != demand.limits.end()) bytes += demand.bytes;
  return bytes;
}

}  // namespace horo::collectives
