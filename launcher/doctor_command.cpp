#include "launcher/doctor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/quantity.h"
#include "horo/observe/flight_directory.h"
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

}  // namespace

int doctor_command(std::span<const std::string> words) {
  const DoctorOptions options = parse(words);
  if (options.help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  const DoctorReport report = examine(find_flight_job(options.directory), options.stall_after);
  fmt::print("{}", options.json ? to_json(report) : to_text(report));
  return 0;
}

std::string flight_setting_for_job(const std::string& setting) {
  if (!setting.empty() && setting != "auto") return setting;
  const auto now =
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return fmt::format("auto:{:016x}-{}", now, getpid());
}

void explain_failure(const std::string& flight_setting,
                     const std::optional<observe::StopOrder>& stop) {
  const auto place = observe::flight_place(flight_setting, 0);
  if (!place || observe::flight_files(place->directory).empty()) return;
  if (stop) observe::note_stop(place->directory, *stop);
  try {
    const Settings settings = parse_environment(process_environment()).settings;
    const DoctorReport report = examine(place->directory, settings.stall_warning);
    fmt::print(stderr, "hororun: {}\nhororun: more: hororun doctor {}\n", verdict_text(report),
               place->directory.string());
  } catch (const Error& error) {
    fmt::print(stderr, "hororun: {}\n", error.what());
  }
}

}  // namespace horo
