#include "horo/observe/process_state.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "horo/base/hash.h"

namespace horo::observe {
namespace {

struct ProcessLine {
  char state = 'X';
  std::uint64_t start = 0;
};

// "PID (NAME) STATE PARENT ...", with the start as field 22; the name may hold blanks and
// parentheses.
std::optional<ProcessLine> read_process(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t end_of_name = text.rfind(") ");
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 2));
  ProcessLine line;
  std::string skipped;
  fields >> line.state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  if (!(fields >> line.start)) return std::nullopt;
  return line;
}

}  // namespace

std::uint64_t this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code ignored;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", ignored);
  if (!std::getline(file, boot) || processes.empty()) return 0;
  return Hash().add(boot).add(processes.string()).value();
}

std::optional<std::uint64_t> start_of_process(std::int64_t pid) {
  const auto line = read_process(pid);
  return line ? std::optional(line->start) : std::nullopt;
}

ProcessState state_of_process(std::int64_t pid, std::uint64_t start) {
  const auto line = read_process(pid);
  if (!line || line->state == 'Z' || line->state == 'X') return ProcessState::kGone;
  if (start != 0 && line->start != start) return ProcessState::kGone;
  return line->state == 'T' || line->state == 't' ? ProcessState::kStopped : ProcessState::kRunning;
}

}  // namespace horo::observe
