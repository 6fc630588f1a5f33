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

/// Quotes `word` for a POSIX shell. A word without special characters is unchanged. Any other word,
/// also an empty one, is put in single quotes.
std::string shell_quote(std::string_view word);
/// Quotes the words and joins them with blanks.
std::string shell_join(std::span<const std::string> words);

/// Splits `text` at blanks and newlines as a shell does. Supports '...', "..." and backslash, but
/// no expansion. split_words(shell_join(words)) returns `words`. Throws InvalidArgument if a quote
/// is not closed.
std::vector<std::string> split_words(std::string_view text);

/// A command line of mpirun.
struct MpirunCommand {
  /// The variables to set in the environment of mpirun, sorted by name: those that `arguments`
  /// passes to the ranks (-x), and those that Open MPI reads.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;  ///< beginning with "mpirun"
  std::size_t program = 0;             ///< the index of the program in `arguments`
};

/// Composes the command line for Open MPI 4. `hosts` must be the parsed options.hosts or
/// options.hostfile. Throws InvalidArgument if the number of ranks is neither given nor known from
/// the slots. Also throws it, unless options.oversubscribe is set, if the given number of ranks
/// exceeds the slots or, without hosts, 256 per core of this machine. If the number is not given,
/// throws it if the slots exceed kMaxRanks or, if all hosts are this machine, 256 per core.
MpirunCommand compose_mpirun(const LaunchOptions& options, std::span<const Host> hosts,
                             const Machine& machine);

/// Returns the command as a line for a POSIX shell. The line begins with the variables.
std::string to_shell_line(const MpirunCommand& command);

}  // namespace horo
