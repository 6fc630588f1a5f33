#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/flight_directory.h"

namespace horo {

/// `hororun doctor`: says what keeps a job, or what ended it. Returns the exit code for main().
/// Throws InvalidArgument for mistakes of the user's.
int doctor_command(std::span<const std::string> words);

/// For `hororun run`: the HORO_FLIGHT_DIR to give to the job, so that its files can be found
/// afterwards; `setting` is the user's, empty if there is none.
std::string flight_setting_for_job(const std::string& setting);
/// Prints what the files of a job that failed say, to standard error; nothing if there are none.
/// `stop`: what the launcher was told, which is noted beside them.
void explain_failure(const std::string& flight_setting,
                     const std::optional<observe::StopOrder>& stop);

}  // namespace horo
