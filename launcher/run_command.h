#pragma once

#include <span>
#include <string>

namespace horo {

/// `hororun run`: reads the options, starts mpirun (or prints the command) and waits. Returns the
/// exit code for main(). Throws InvalidArgument for mistakes of the user's, Error if mpirun cannot
/// be started.
int run_command(std::span<const std::string> words);

}  // namespace horo
