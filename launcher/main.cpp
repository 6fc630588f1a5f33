#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "horo/base/error.h"
#include "launcher/doctor_command.h"
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
  if (first == "run") return horo::run_command(words.subspan(1));
  return horo::run_command(words);
}

/// A message stays one line, whatever the words it quotes.
int report_error(const std::exception& error, int exit_code) {
  std::string line = error.what();
  for (std::size_t i = 0; (i = line.find('\n', i)) != std::string::npos;) line.replace(i, 1, "\\n");
  fmt::print(stderr, "hororun: {}\n", line);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const horo::InvalidArgument& error) {
    return report_error(error, 2);
  } catch (const std::exception& error) {
    return report_error(error, 1);
  }
}
