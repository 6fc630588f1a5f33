#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// What composing a command needs to know about this machine and process.
struct Machine {
  std::string host_name;
  int cores =
      1;  ///< that this process may use: its affinity mask, cut by the control group's quota
  bool is_root = false;
  /// Whether there is ssh or rsh, without which mpirun wants to be told that it needs none.
  bool has_remote_shell = true;
  /// Whether processes may copy from each other's memory; some containers forbid it.
  bool allows_cross_memory_copy = true;
  std::vector<std::string> environment;  ///< "NAME=VALUE" entries
};

Machine inspect_machine();

/// Makes sure that this process and its children may open the files that mpirun needs for `ranks`
/// ranks: raises the soft limit (ulimit -n) if needed. Throws InvalidArgument if the hard limit is
/// lower.
void require_open_files(int ranks);

/// Whether a host of this name is this machine.
bool is_this_machine(const Machine& machine, std::string_view host);

/// The value of `name` in "NAME=VALUE" entries; empty if it is not there.
std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name);

/// The number of cores that the text of a control group's cpu.max ("MAX PERIOD" in microseconds)
/// amounts to, rounded up; `cores` if it sets no limit or more.
int cores_within_quota(std::string_view cpu_max, int cores);

}  // namespace horo
