#pragma once

#include <span>
#include <string>

namespace horo {

/// `hororun doctor`: says what keeps a job, or what ended it. Returns the exit code for main().
/// Throws InvalidArgument for mistakes of the user's.
int doctor_command(std::span<const std::string> words);

}  // namespace horo
