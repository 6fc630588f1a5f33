#include "launcher/flight_job.h"

#include <fmt/format.h>

#include <vector>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/observe/flight_directory.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

fs::path default_place() {
  const std::string setting = parse_environment(process_environment()).settings.flight_dir;
  return setting.starts_with("auto") || setting == "off" ? observe::flight_base()
                                                         : fs::path(setting);
}

}  // namespace

fs::path find_flight_job(const std::optional<std::string>& directory) {
  const fs::path place = directory ? fs::path(*directory) : default_place();
  std::error_code error;
  fs::directory_iterator(place, error);
  // The default place exists only while it holds a job's files.
  if (error && (directory || error != std::errc::no_such_file_or_directory))
    throw InvalidArgument(fmt::format("{} cannot be read: {}", place.string(), error.message()));
  if (!observe::flight_files(place).empty()) return place;
  const std::vector<fs::path> jobs = observe::flight_jobs(place);
  if (!jobs.empty()) return jobs.front();
  throw InvalidArgument(
      fmt::format("{}: no flight recorder's files are there; they stay when a job fails, or with "
                  "HORO_FLIGHT_DIR=DIR always",
                  place.string()));
}

}  // namespace horo
