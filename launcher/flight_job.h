#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace horo {

/// The directory of one job's flight recorders: `directory`, or the newest job's in it; without
/// one, HORO_FLIGHT_DIR or the default place is looked at. Throws InvalidArgument if no files are
/// there, or if the directory cannot be read.
std::filesystem::path find_flight_job(const std::optional<std::string>& directory);

}  // namespace horo
