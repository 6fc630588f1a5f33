#include "horo/flight_recorder/process_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

#include "horo/base/hash.h"

namespace horo::observe {
namespace {

// The start time (field 22 in proc(5)) is this many fields after the state (field 3).
constexpr int kFieldsToStartTime = 19;

std::string_view next_field(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end);
  return field;
}

// Other errors, such as too many open files, give no information about the process.
bool is_no_such_process(int error) { return error == ENOENT || error == ESRCH; }

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The name of the program may contain spaces and parentheses, so its end is the last ')'.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  text.remove_prefix(name_end + 1);
  const std::string_view state = next_field(text);
  if (state.size() != 1) return std::nullopt;
  std::string_view field;
  for (int i = 0; i < kFieldsToStartTime; ++i) field = next_field(text);
  ProcessStat stat;
  stat.state = state.front();
  const auto [rest, status] =
      std::from_chars(field.data(), field.data() + field.size(), stat.start_time);
  if (status != std::errc{} || rest != field.data() + field.size()) return std::nullopt;
  return stat;
}

ProcessLookup look_up_process(std::int64_t pid) {
  const int file = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {is_no_such_process(errno), std::nullopt};
  char text[1024];
  const ssize_t length = read(file, text, sizeof text);
  const bool is_gone = length < 0 && is_no_such_process(errno);
  close(file);
  if (length <= 0) return {is_gone, std::nullopt};
  const auto stat = parse_process_stat({text, static_cast<std::size_t>(length)});
  return {stat.has_value(), stat};
}

// The boot id alone is not enough, because containers on one kernel may have different pid
// namespaces.
std::uint64_t machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code ignored;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", ignored);
  if (!std::getline(file, boot) || processes.empty()) return 0;
  return Hash().add(boot).add(processes.string()).value();
}

std::optional<std::uint64_t> process_start_time(std::int64_t pid) {
  const auto stat = look_up_process(pid).stat;
  return stat ? std::optional(stat->start_time) : std::nullopt;
}

ProcessState state_of_process(std::int64_t pid, std::uint64_t start) {
  const auto [is_known, stat] = look_up_process(pid);
  if (!is_known) return ProcessState::kUnknown;
  if (!stat || (start != 0 && stat->start_time != start)) return ProcessState::kGone;
  switch (stat->state) {
    case 'Z':
    case 'X':
    case 'x':
      return ProcessState::kGone;
    case 'T':
    case 't':
      return ProcessState::kStopped;
    default:
      return ProcessState::kRunning;
  }
}

}  // namespace horo::observe
