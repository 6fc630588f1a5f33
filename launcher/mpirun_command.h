#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/host_list.h"
#include "launcher/launch_options.h"
#include "launcher/machine.h"

namespace horo {

/// A call of mpirun.
struct MpirunCommand {
  /// Variables it relies on, sorted by name: set by hororun, or found in its environment and passed
  /// on to the ranks.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;  ///< beginning with "mpirun"
  std::size_t program = 0;             ///< the index of the program in `arguments`
};

/// Composes the call for Open MPI 4. `hosts` are those of options.hosts or options.hostfile, read.
/// Throws InvalidArgument if there are more ranks than slots, or so many more than cores that it
/// must be a mistake.
MpirunCommand compose_mpirun(const LaunchOptions& options, std::span<const Host> hosts,
                             const Machine& machine);

/// The command as a line for a POSIX shell, assignments first.
std::string to_shell_line(const MpirunCommand& command);

}  // namespace horo
