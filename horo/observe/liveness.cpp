#include "horo/observe/liveness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

namespace horo::observe {
namespace {

// Counted from the state, which follows the name in parentheses: field 22 of proc(5).
constexpr int kFieldsToStartTime = 19;
// A zombie whose heart beats is a process whose first thread has ended before the others.
constexpr auto kFreshHeartbeat = std::chrono::seconds(2);

std::string_view next_field(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end);
  return field;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The name may hold spaces and parentheses of its own.
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

std::optional<ProcessStat> read_process_stat(std::int64_t pid) {
  const int file = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[1024];
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  if (length <= 0) return std::nullopt;
  return parse_process_stat({text, static_cast<std::size_t>(length)});
}

std::uint64_t own_pid_namespace() {
  struct stat found {};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

Liveness judge_liveness(const Sighting& sighting, std::chrono::nanoseconds silent_after) {
  if (sighting.has_left) return Liveness::kEnded;
  if (!sighting.is_visible)
    return sighting.silence > silent_after ? Liveness::kSilent : Liveness::kRunning;
  // A number that belongs to another process by now has been given up by the rank.
  if (!sighting.process || sighting.process->start_time != sighting.start_time)
    return Liveness::kDead;
  switch (sighting.process->state) {
    case 'X':
    case 'x':
      return Liveness::kDead;
    case 'Z':
      return sighting.silence > kFreshHeartbeat ? Liveness::kDead : Liveness::kRunning;
    case 'T':
    case 't':
      return Liveness::kStopped;
    default:
      return sighting.silence > 10 * silent_after ? Liveness::kSilent : Liveness::kRunning;
  }
}

}  // namespace horo::observe
