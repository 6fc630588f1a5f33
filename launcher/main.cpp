#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "launcher/commands.h"

namespace {

// `hororun settings [--markdown]`: prints every HORO_ setting with the value that is in effect in
// this environment, or docs/reference/environment.md.
int settings_command(std::span<const std::string> words) {
  if (words.size() == 1 && (words[0] == "-h" || words[0] == "--help")) {
    fmt::print(
        "Prints the HORO_ settings with the values that are in effect here.\n\n"
        "  hororun settings\n"
        "  --markdown                  print docs/reference/environment.md, with the defaults\n");
    return 0;
  }
  if (words.size() == 1 && words[0] == "--markdown") {
    fmt::print("{}", horo::environment_markdown());
    return 0;
  }
  if (!words.empty())
    throw horo::InvalidArgument(
        fmt::format("settings takes --markdown, --help or nothing, not '{}'", words.back()));
  const horo::ParsedEnvironment parsed = horo::parse_environment(horo::process_environment());
  for (std::size_t i = 0; i < horo::settings_table().size(); ++i) {
    const horo::SettingInfo& info = horo::settings_table()[i];
    const bool is_default = parsed.value_of[i] == info.default_value;
    fmt::print("{}={}{}\n    {} (accepts {})\n", info.name, horo::printable(parsed.value_of[i]),
               is_default ? "" : fmt::format("   default: {}", info.default_value), info.meaning,
               info.accepts);
  }
  for (const std::string& warning : parsed.warnings)
    fmt::print(stderr, "hororun: {}\n", horo::printable(warning));
  return 0;
}

int dispatch(std::span<const std::string> words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--version") {
    fmt::print("hororun {}\n", HORO_VERSION);
    return 0;
  }
  if (first == "settings") return settings_command(words.subspan(1));
  if (first == "doctor") return horo::doctor_command(words.subspan(1));
  if (first == "timeline") return horo::timeline_command(words.subspan(1));
  if (first == "stragglers") return horo::stragglers_command(words.subspan(1));
  if (first == "pack") return horo::pack_command(words.subspan(1));
  if (first == "rank") return horo::rank_command(words.subspan(1));
  if (first == "run") return horo::run_command(words.subspan(1));
  return horo::run_command(words);
}

/// Prints the message in one line, even if the message quotes words with control characters.
int report_error(const std::exception& error, int exit_code) {
  fmt::print(stderr, "hororun: {}\n", horo::printable(error.what()));
  return exit_code;
}

/// Opens /dev/null for each closed standard stream. Otherwise a file that is opened later could get
/// the descriptor of the stream, and output for the stream would be written to that file. The
/// caller must call this function before it opens any file.
void open_closed_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  try {
    return dispatch(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const horo::InvalidArgument& error) {
    return report_error(error, 2);
  } catch (const std::exception& error) {
    return report_error(error, 1);
  }
}
