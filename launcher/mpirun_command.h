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

/// Quotes `word` for a POSIX shell. A word without special characters is unchanged. Any other word
/// is put in single quotes. Newlines are kept.
std::string shell_quote(std::string_view word);
/// Quotes the words and joins them with blanks.
std::string shell_join(std::span<const std::string> words);

/// Splits `text` at blanks as a shell does. Supports '...', "..." and backslash, but no expansion.
/// This is the inverse of shell_join(). Throws InvalidArgument if a quote is not closed.
std::vector<std::string> split_words(std::string_view text);

/// A command line of mpirun.
struct MpirunCommand {
  /// The environment variables of the command, sorted by name. hororun sets them, or takes them
  /// from its own environment to pass them to the ranks.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;  ///< beginning with "mpirun"
  std::size_t program = 0;             ///< the index of the program in `arguments`
};

/// Composes the command line for Open MPI 4. `hosts` must be the parsed options.hosts or
/// options.hostfile. Throws InvalidArgument if the number of ranks is neither given nor known from
/// the slots. Also throws it if there are too many ranks for the hosts and options.oversubscribe
/// does not allow this: more ranks than slots, or more than 256 ranks per core of this machine.
MpirunCommand compose_mpirun(const LaunchOptions& options, std::span<const Host> hosts,
                             const Machine& machine);

/// Returns the command as a line for a POSIX shell. The line begins with the variables.
std::string to_shell_line(const MpirunCommand& command);

}  // namespace horo
