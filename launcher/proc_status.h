#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// A process as /proc names it. The start time tells it from a later process of the same id.
struct ProcessId {
  pid_t pid = -1;
  std::uint64_t start_time = 0;

  bool operator==(const ProcessId&) const = default;
};

/// The running process of this id; none if it does not exist or has ended (a zombie).
std::optional<ProcessId> running_process(pid_t pid);

/// The children of a process. May miss a child while another one ends. Empty where the kernel has
/// no /proc/PID/task/TID/children.
std::vector<pid_t> children_of(pid_t pid);

/// The environment that the process got at its start, "NAME=VALUE" entries; empty if it cannot be
/// read.
std::vector<std::string> environment_of(pid_t pid);

/// Whether the process has a thread of this name.
bool has_thread(pid_t pid, std::string_view name);

}  // namespace horo
