#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/host_list.h"
#include "launcher/launch_options.h"
#include "launcher/machine.h"

namespace horo {

/// `word` quoted for a POSIX shell: unchanged if it has no special character, otherwise in single
/// quotes. Keeps newlines.
std::string shell_quote(std::string_view word);
/// The words quoted and joined by blanks.
std::string shell_join(std::span<const std::string> words);

/// Splits `text` at blanks like a shell, with '...', "..." and backslash, but without expansion.
/// The inverse of shell_join(). Throws InvalidArgument if a quote is not closed.
std::vector<std::string> split_words(std::string_view text);

/// A command line of mpirun.
struct MpirunCommand {
  /// The variables of the command, sorted by name: set by hororun, or taken from its environment
  /// for the ranks.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;  ///< beginning with "mpirun"
  std::size_t program = 0;             ///< the index of the program in `arguments`
};

/// Composes the command line for Open MPI 4. `hosts` is the parsed options.hosts or
/// options.hostfile. Throws InvalidArgument if there are more ranks than slots, or more than 256
/// ranks per core.
MpirunCommand compose_mpirun(const LaunchOptions& options, std::span<const Host> hosts,
                             const Machine& machine);

/// The command as a line for a POSIX shell, assignments first.
std::string to_shell_line(const MpirunCommand& command);

}  // namespace horo
