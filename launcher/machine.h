#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// The properties of this machine and process on which the command line of mpirun depends.
struct Machine {
  std::string host_name;
  int cores = 1;  ///< usable by this process: its affinity mask and the quota of its control group
  bool is_root = false;
  /// Whether ssh or rsh is installed. Without them mpirun needs an option that disables remote
  /// starts.
  bool has_remote_shell = true;
  /// Whether a process may copy from the memory of another one. Some containers forbid it.
  bool allows_cross_memory_copy = true;
  std::vector<std::string> environment;  ///< "NAME=VALUE" entries
};

Machine inspect_machine();

/// Raises the soft limit of open files (ulimit -n) of this process and its later children to the
/// number that mpirun needs for `ranks` ranks. Throws InvalidArgument if the hard limit is lower.
void require_open_files(int ranks);

/// Whether `host` is a name of this machine.
bool is_this_machine(const Machine& machine, std::string_view host);

/// The value of `name` in "NAME=VALUE" entries; empty if there is no such entry.
std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name);

/// The number of cores that cpu.max of a control group ("MAX PERIOD" in microseconds) allows,
/// rounded up; at most `cores`.
int cores_within_quota(std::string_view cpu_max, int cores);

}  // namespace horo
