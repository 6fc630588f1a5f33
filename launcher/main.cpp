#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/printable.h"
#include "launcher/doctor_command.h"
#include "launcher/rank_command.h"
#include "launcher/run_command.h"
#include "launcher/settings_command.h"
#include "launcher/trace_commands.h"

namespace {

int dispatch(std::span<const std::string> words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--version") {
    fmt::print("hororun {}\n", HORO_VERSION);
    return 0;
  }
  if (first == "settings") return horo::settings_command(words.subspan(1));
  if (first == "doctor") return horo::doctor_command(words.subspan(1));
  if (first == "timeline") return horo::timeline_command(words.subspan(1));
  if (first == "stragglers") return horo::stragglers_command(words.subspan(1));
  if (first == "rank") return horo::rank_command(words.subspan(1));
  if (first == "run") return horo::run_command(words.subspan(1));
  return horo::run_command(words);
}

/// A message stays one line, whatever the words it quotes.
int report_error(const std::exception& error, int exit_code) {
  fmt::print(stderr, "hororun: {}\n", horo::printable(error.what()));
  return exit_code;
}

/// Where a standard stream is closed, a file that is opened later would get its number and what is
/// meant for the stream. Must run before anything opens a file.
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
