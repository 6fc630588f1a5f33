#include "launcher/failure_scanner.h"

#include <fmt/format.h>

#include <charconv>

namespace horo {
namespace {

/// Removes from `text` all up to and including `mark`; false if it is not there.
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

/// "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed)."
std::optional<RankFailure> read_signal_line(std::string_view line) {
  if (!skip_past(line, "noticed that process rank ")) return std::nullopt;
  const auto rank = take_number(line);
  if (!rank || !skip_past(line, " on node ")) return std::nullopt;
  const std::string host(line.substr(0, line.find(' ')));
  if (!skip_past(line, "exited on ")) return std::nullopt;
  if (line.ends_with('.')) line.remove_suffix(1);
  return RankFailure{*rank, host, fmt::format("killed by {}", line)};
}

/// "  Process name: [[31116,1],1]": the rank is the last number.
std::optional<int> read_process_name(std::string_view line) {
  if (!skip_past(line, "Process name: [[") || !skip_past(line, "],")) return std::nullopt;
  return take_number(line);
}

}  // namespace

void FailureScanner::feed(std::string_view bytes) {
  constexpr std::size_t kLongestLine = 1000;  // a report's line is shorter
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
  if (failure_) return;
  failure_ = read_signal_line(line);
  if (const auto rank = read_process_name(line)) exited_rank_ = rank;
  std::string_view rest = line;
  if (exited_rank_ && skip_past(rest, "Exit code:")) {
    if (const auto code = take_number(rest))
      failure_ = RankFailure{*exited_rank_, "", fmt::format("exit code {}", *code)};
  } else if (skip_past(rest, "MPI_ABORT was invoked on rank ")) {
    aborting_rank_ = take_number(rest);
  } else if (aborting_rank_ && skip_past(rest, "with errorcode ")) {
    if (const auto code = take_number(rest))
      failure_ = RankFailure{*aborting_rank_, "", fmt::format("MPI_Abort with code {}", *code)};
  }
}

std::string describe(const RankFailure& failure) {
  return fmt::format("rank {}{} ended first: {}", failure.rank,
                     failure.host.empty() ? "" : fmt::format(" (host {})", failure.host),
                     failure.how);
}

}  // namespace horo
