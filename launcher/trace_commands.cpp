#include "launcher/trace_commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "horo/base/error.h"
#include "horo/observe/stragglers.h"
#include "horo/observe/timeline.h"
#include "launcher/doctor_report.h"
#include "launcher/flight_job.h"

namespace horo {
namespace {

constexpr std::string_view kTimelineHelp =
    "Writes what the ranks of a job did, from their flight recorders, as one trace.\n\n"
    "  hororun timeline [DIR]      DIR: as for hororun doctor\n"
    "  --output, -o FILE           where to; default: trace.json. Open it at ui.perfetto.dev or\n"
    "                              chrome://tracing\n";
constexpr std::string_view kStragglersHelp =
    "Says which ranks of a job the others waited for, from their flight recorders.\n\n"
    "  hororun stragglers [DIR]    DIR: as for hororun doctor\n";

struct TraceOptions {
  std::optional<std::string> directory;
  std::string output = "trace.json";
  bool help = false;
};

TraceOptions parse(std::string_view command, std::span<const std::string> words) {
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
          fmt::format("{} looks at one directory; '{}' is one more", command, words[i]));
    } else {
      options.directory = words[i];
    }
  }
  return options;
}

DoctorReport read_job(const TraceOptions& options) {
  DoctorReport report =
      examine(find_flight_job(options.directory), std::chrono::nanoseconds::max());
  for (const std::string& problem : report.problems) fmt::print(stderr, "hororun: {}\n", problem);
  if (!report.absent.empty())
    fmt::print(stderr, "hororun: {} of {} ranks have no file in {}\n", report.absent.size(),
               report.size, report.directory.string());
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
  const TraceOptions options = parse("timeline", words);
  if (options.help) {
    fmt::print("{}", kTimelineHelp);
    return 0;
  }
  const DoctorReport report = read_job(options);
  write_file(options.output, observe::timeline_json(report.logs));
  fmt::print("{}: {} ranks of {}; open it at ui.perfetto.dev\n", options.output, report.logs.size(),
             report.directory.string());
  return 0;
}

int stragglers_command(std::span<const std::string> words) {
  const TraceOptions options = parse("stragglers", words);
  if (options.help) {
    fmt::print("{}", kStragglersHelp);
    return 0;
  }
  fmt::print("{}", observe::describe(observe::find_stragglers(read_job(options).logs)));
  return 0;
}

}  // namespace horo
