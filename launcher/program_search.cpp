#include "launcher/program_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "horo/base/error.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

bool is_executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& program, std::string_view path) {
  std::error_code ignored;
  if (program.find('/') != std::string::npos) {
    if (is_executable_file(program)) return program;
    if (!fs::exists(program, ignored))
      throw InvalidArgument(
          fmt::format("program '{}' does not exist; has it been built?", program));
    if (fs::is_directory(program, ignored))
      throw InvalidArgument(
          fmt::format("program '{}' is a directory; name the program in it", program));
    throw InvalidArgument(
        fmt::format("program '{}' is not executable; chmod +x makes it so", program));
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t colon = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, colon - begin)) / program;
    if (is_executable_file(candidate)) return candidate;
    begin = colon + 1;
  }
  if (is_executable_file(program))
    throw InvalidArgument(fmt::format(
        "program '{0}' is not on PATH; for the one in this directory write ./{0}", program));
  throw InvalidArgument(fmt::format("program '{}' is not on PATH; write its path", program));
}

}  // namespace horo
