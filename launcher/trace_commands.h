#pragma once

#include <span>
#include <string>

namespace horo {

/// `hororun timeline`: writes a job's flight recorders as one trace. Returns the exit code for
/// main(). Throws InvalidArgument for mistakes of the user's, Error if the file cannot be written.
int timeline_command(std::span<const std::string> words);

/// `hororun stragglers`: says which ranks of a job the others waited for. The same rules.
int stragglers_command(std::span<const std::string> words);

}  // namespace horo
