#include "launcher/doctor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/quantity.h"
#include "horo/observe/flight_directory.h"
#include "horo/observe/missing_operations.h"
#include "horo/observe/wall_clock.h"
#include "launcher/doctor_report.h"
#include "launcher/flight_job.h"

namespace horo {
namespace {

constexpr std::string_view kHelp =
    "Says what keeps a job, or what ended it, from the flight recorders of its ranks.\n\n"
    "  hororun doctor [DIR]        DIR: of a job's files, or of several jobs' directories;\n"
    "                              default: HORO_FLIGHT_DIR, or the newest job of this machine\n"
    "  --json                      for programs\n"
    "  --stall-after DURATION      how long a wait may last before it is a stall; default:\n"
    "                              HORO_STALL_WARNING\n";

struct DoctorOptions {
  std::optional<std::string> directory;
  bool json = false;
  bool help = false;
  std::chrono::nanoseconds stall_after{};
};

DoctorOptions parse(std::span<const std::string> words) {
  DoctorOptions options;
  const Settings settings = parse_environment(process_environment()).settings;
  options.stall_after = settings.stall_warning;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--json") {
      options.json = true;
    } else if (words[i] == "--help" || words[i] == "-h") {
      options.help = true;
    } else if (words[i] == "--stall-after") {
      if (i + 1 == words.size()) throw InvalidArgument("--stall-after needs a value, such as 10s");
      options.stall_after = parse_duration(words[++i]);
    } else if (words[i].starts_with('-')) {
      throw InvalidArgument(
          fmt::format("unknown option {}; hororun doctor --help lists them", words[i]));
    } else if (options.directory) {
      throw InvalidArgument(
          fmt::format("doctor looks at one directory; '{}' is one more", words[i]));
    } else {
      options.directory = words[i];
    }
  }
  return options;
}

/// Why this job is shown where the user named none: in the default place jobs that end well leave
/// no files.
std::string note_on_choice(const DoctorReport& report) {
  bool runs = false;
  for (std::size_t i = 0; i < report.logs.size(); ++i) {
    const std::string state = state_text(report.logs[i], report.snapshots[i]);
    runs = runs || state == "running" || state == "stopped";
  }
  if (runs || report.directory.parent_path() != observe::flight_base()) return "";
  return fmt::format(
      "the newest job that failed, last seen {} ago; jobs that ended well after it left no files\n",
      observe::name_age(std::max<observe::WallTime>(observe::wall_time_now() - report.now, 0)));
}

}  // namespace

int doctor_command(std::span<const std::string> words) {
  const DoctorOptions options = parse(words);
  if (options.help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  const DoctorReport report = examine(find_flight_job(options.directory), options.stall_after);
  if (!options.directory && !options.json) fmt::print("{}", note_on_choice(report));
  fmt::print("{}", options.json ? to_json(report) : to_text(report));
  return 0;
}

}  // namespace horo
