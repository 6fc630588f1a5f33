#include "launcher/failure_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace horo {
namespace {

// The second line of the report that begins with "Primary job terminated normally, but 1 process
// returned".
constexpr std::string_view kAborting =
    "a non-zero exit code. Per user-direction, the job has been aborted.";

/// Removes the beginning of `text` up to and including `mark`. If `text` does not contain `mark`,
/// returns false and leaves `text` unchanged.
bool skip_past(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + mark.size());
  return true;
}

std::optional<int> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

/// Reads "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed)."
std::optional<RankFailure> read_signal_line(std::string_view line) {
  if (!skip_past(line, "noticed that process rank ")) return std::nullopt;
  const auto rank = take_number(line);
  if (!rank || !skip_past(line, " on node ")) return std::nullopt;
  const std::string host(line.substr(0, line.find(' ')));
  if (!skip_past(line, "exited on ")) return std::nullopt;
  if (line.ends_with('.')) line.remove_suffix(1);
  std::string_view number = line;
  const int signal = skip_past(number, "signal ") ? take_number(number).value_or(0) : 0;
  return RankFailure{*rank, host, fmt::format("was killed by {}", line), 128 + signal};
}

/// Reads "  Process name: [[31116,1],1]". The last number is the rank.
std::optional<int> read_process_name(std::string_view line) {
  if (!skip_past(line, "Process name: [[") || !skip_past(line, "],")) return std::nullopt;
  return take_number(line);
}

/// Reads "mpirun has exited due to process rank 1 with PID 0 on". The report continues on the next
/// line.
std::optional<int> read_improper_exit(std::string_view line) {
  if (!skip_past(line, "has exited due to process rank ")) return std::nullopt;
  return take_number(line);
}

/// Whether ssh reports a failure, such as "ssh: Could not resolve hostname b: Name or service not
/// known" or "user@b: Permission denied (publickey).".
bool is_remote_shell_error(std::string_view line) {
  return line.starts_with("ssh: ") || line.starts_with("Host key verification failed") ||
         line.find(": Permission denied (") != std::string_view::npos;
}

/// Reads "  Remote daemon: [[4514,0],3] on node b" in the report of a lost connection.
std::optional<std::string> read_lost_host(std::string_view line) {
  if (!skip_past(line, "Remote daemon: ") || !skip_past(line, " on node ")) return std::nullopt;
  return std::string(line.substr(0, line.find(' ')));
}

/// Removes blanks, periods and carriage returns from the end of a line of ssh.
std::string_view trim_end(std::string_view line) {
  return line.substr(0, line.find_last_not_of(" \r.") + 1);
}

}  // namespace

void FailureScanner::feed(std::string_view bytes) {
  constexpr std::size_t kLongestLine = 1000;  // the lines that read_line() parses are shorter
  for (char c : bytes) {
    if (c == '\n') {
      read_line(line_);
      line_.clear();
    } else if (line_.size() < kLongestLine) {
      line_ += c;
    }
  }
}

void FailureScanner::read_line(std::string_view line) {
  if (!remote_shell_error_ && is_remote_shell_error(line)) remote_shell_error_ = trim_end(line);
  is_aborting_ |= line == kAborting || line.starts_with("MPI_ABORT was invoked on rank ");
  if (!lost_host_ && !failure_) lost_host_ = read_lost_host(line);
  if (failure_) return;
  failure_ = read_signal_line(line);
  if (const auto rank = read_process_name(line)) exited_rank_ = rank;
  if (const auto rank = read_improper_exit(line)) improper_rank_ = rank;
  std::string_view rest = line;
  if (improper_rank_ && line.find(" exiting improperly") != std::string_view::npos &&
      skip_past(rest, "node ")) {
    failure_ = RankFailure{
        *improper_rank_, std::string(rest.substr(0, rest.find(' '))),
        "exited with code 0 without horo::init() or without shutdown(), which other ranks called",
        1};
  } else if (exited_rank_ && skip_past(rest, "Exit code:")) {
    if (const auto code = take_number(rest))
      failure_ = RankFailure{*exited_rank_, "", fmt::format("exited with code {}", *code), *code};
  } else if (skip_past(rest, "MPI_ABORT was invoked on rank ")) {
    aborting_rank_ = take_number(rest);
  } else if (aborting_rank_ && skip_past(rest, "with errorcode ")) {
    if (const auto code = take_number(rest))
      failure_ = RankFailure{*aborting_rank_, "",
                             fmt::format("called MPI_Abort with code {}", *code), *code};
  }
}

std::string describe(const RankFailure& failure) {
  return fmt::format("rank {}{} {}", failure.rank,
                     failure.host.empty() ? "" : fmt::format(" (host {})", failure.host),
                     failure.how);
}

}  // namespace horo
