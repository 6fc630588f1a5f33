#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "horo/base/text/quantity.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/diagnosis/stragglers.h"
#include "horo/diagnosis/timeline.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "launcher/commands.h"
#include "launcher/doctor/doctor_report.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

fs::path default_place() {
  const std::string setting = parse_environment(process_environment()).settings.flight_dir;
  return setting.starts_with("auto") || setting == "off" ? observe::flight_base()
                                                         : fs::path(setting);
}

// Returns the directory with the flight recorders of one job. This is `directory` if it has such
// files, and otherwise the directory of the newest job in `directory`. Without `directory`, uses
// HORO_FLIGHT_DIR or the default directory instead. Throws InvalidArgument if there are no such
// files, or if the directory cannot be read.
fs::path find_flight_job(const std::optional<std::string>& directory) {
  const fs::path place = directory ? fs::path(*directory) : default_place();
  std::error_code error;
  fs::directory_iterator(place, error);
  // The default directory exists only while it has files of a job.
  if (error && (directory || error != std::errc::no_such_file_or_directory))
    throw InvalidArgument(fmt::format("{} cannot be read: {}", place.string(), error.message()));
  if (!observe::flight_files(place).empty()) return place;
  const std::vector<fs::path> jobs = observe::flight_jobs(place);
  if (!jobs.empty()) return jobs.front();
  throw InvalidArgument(fmt::format(
      "{}: no files of a flight recorder; a job leaves them when it fails, or always with "
      "HORO_FLIGHT_DIR=DIR",
      place.string()));
}

constexpr std::string_view kDoctorHelp =
    "Prints why a job makes no progress, or why it ended, from the flight recorders of its "
    "ranks.\n\n"
    "  hororun doctor [DIR]        DIR: the files of a job, or the directories of several jobs;\n"
    "                              default: HORO_FLIGHT_DIR, or the newest job of this machine\n"
    "  --json                      print JSON\n"
    "  --stall-after DURATION      a wait of at least this length is a stall; default:\n"
    "                              HORO_STALL_WARNING\n";

struct DoctorOptions {
  std::optional<std::string> directory;
  bool json = false;
  bool help = false;
  std::chrono::nanoseconds stall_after{};
};

DoctorOptions parse_doctor_options(std::span<const std::string> words) {
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
          fmt::format("doctor takes one directory; '{}' is a second one", words[i]));
    } else {
      options.directory = words[i];
    }
  }
  return options;
}

/// If the report is on a job in the default directory that does not run any more, returns a line
/// that states which job this is. Returns an empty text otherwise. In the default directory, jobs
/// that succeed leave no files.
std::string note_on_choice(const DoctorReport& report) {
  bool runs = false;
  for (std::size_t i = 0; i < report.logs.size(); ++i) {
    const std::string state = state_text(report.logs[i], report.snapshots[i]);
    runs = runs || state == "running" || state == "stopped";
  }
  if (runs || report.directory.parent_path() != observe::flight_base()) return "";
  return fmt::format(
      "the newest job that failed, last seen {} ago; jobs that ended well after it left no files\n",
      format_nanoseconds(std::max<observe::WallTime>(observe::wall_time_now() - report.now, 0)));
}

}  // namespace

int doctor_command(std::span<const std::string> words) {
  const DoctorOptions options = parse_doctor_options(words);
  if (options.help) {
    fmt::print("{}", kDoctorHelp);
    return 0;
  }
  const DoctorReport report = examine(find_flight_job(options.directory), options.stall_after);
  if (!options.directory && !options.json) fmt::print("{}", note_on_choice(report));
  fmt::print("{}", options.json ? to_json(report) : to_text(report));
  return 0;
}

namespace {

constexpr std::string_view kTimelineHelp =
    "Writes the operations of all ranks of a job, from their flight recorders, as one trace.\n\n"
    "  hororun timeline [DIR]      DIR: as for hororun doctor\n"
    "  --output, -o FILE           the trace; default: trace.json. Open it at ui.perfetto.dev or\n"
    "                              chrome://tracing\n";
constexpr std::string_view kStragglersHelp =
    "Prints which ranks of a job the others waited for, from their flight recorders.\n\n"
    "  hororun stragglers [DIR]    DIR: as for hororun doctor\n";

struct TraceOptions {
  std::optional<std::string> directory;
  std::string output = "trace.json";
  bool help = false;
};

TraceOptions parse_trace_options(std::string_view command, std::span<const std::string> words) {
  TraceOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") {
      options.help = true;
    } else if (command == "timeline" && (words[i] == "--output" || words[i] == "-o")) {
      if (i + 1 == words.size()) throw InvalidArgument("--output needs the name of a file");
      options.output = words[++i];
    } else if (words[i].starts_with('-')) {
      throw InvalidArgument(
          fmt::format("unknown option {}; hororun {} --help lists them", words[i], command));
    } else if (options.directory) {
      throw InvalidArgument(
          fmt::format("{} takes one directory; '{}' is a second one", command, words[i]));
    } else {
      options.directory = words[i];
    }
  }
  return options;
}

DoctorReport read_job(const TraceOptions& options) {
  DoctorReport report =
      examine(find_flight_job(options.directory), std::chrono::nanoseconds::max());
  for (const std::string& problem : report.problems)
    fmt::print(stderr, "hororun: {}\n", printable(problem));
  if (!report.absent.empty())
    fmt::print(stderr, "hororun: {} of {} {} no file in {}\n", report.absent.size(),
               format_count(static_cast<std::size_t>(report.size), "rank"),
               report.absent.size() == 1 ? "has" : "have", printable(report.directory.string()));
  return report;
}

void write_file(const std::string& path, std::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool is_open = file != nullptr;
  const bool is_written = is_open && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (is_open && std::fclose(file) == 0 && is_written) return;
  throw Error(fmt::format("{} cannot be written", path));
}

}  // namespace

int timeline_command(std::span<const std::string> words) {
  const TraceOptions options = parse_trace_options("timeline", words);
  if (options.help) {
    fmt::print("{}", kTimelineHelp);
    return 0;
  }
  const DoctorReport report = read_job(options);
  write_file(options.output, observe::timeline_json(report.logs));
  fmt::print("{}: {} of {}; open it at ui.perfetto.dev\n", printable(options.output),
             format_count(report.logs.size(), "rank"), printable(report.directory.string()));
  return 0;
}

int stragglers_command(std::span<const std::string> words) {
  const TraceOptions options = parse_trace_options("stragglers", words);
  if (options.help) {
    fmt::print("{}", kStragglersHelp);
    return 0;
  }
  fmt::print("{}", observe::describe(observe::find_stragglers(read_job(options).logs)));
  return 0;
}

}  // namespace horo
