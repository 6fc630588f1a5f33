#include "launcher/rank_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace horo {
namespace {

// "\x1ehororun-rank-end RANK PID STATUS HOST LAST LINE\n"
constexpr char kBegin = '\x1e';  // the record separator of ASCII
constexpr char kEnd = '\n';
constexpr std::string_view kTitle = "hororun-rank-end ";
constexpr std::size_t kLongestReport = 1000;

std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(rest - text.data());
  if (status != std::errc{} || length == text.size() || text[length] != ' ') return std::nullopt;
  text.remove_prefix(length + 1);
  return value;
}

std::optional<RankEnd> decode(std::string_view report) {
  report.remove_prefix(1);
  if (!report.starts_with(kTitle)) return std::nullopt;
  report.remove_prefix(kTitle.size());
  const auto rank = take_number(report);
  const auto pid = rank ? take_number(report) : std::nullopt;
  const auto wait_status = pid ? take_number(report) : std::nullopt;
  const std::size_t end_of_host = report.find(' ');
  if (!wait_status || end_of_host == std::string_view::npos) return std::nullopt;
  return RankEnd{*rank, *pid, std::string(report.substr(0, end_of_host)), *wait_status,
                 std::string(report.substr(end_of_host + 1))};
}

}  // namespace

std::string describe(const RankEnd& end) {
  if (!WIFSIGNALED(end.wait_status))
    return fmt::format("exited with code {}", WEXITSTATUS(end.wait_status));
  const int signal = WTERMSIG(end.wait_status);
  const char* name = sigdescr_np(signal);
  return fmt::format("was killed by signal {} ({})", signal, name == nullptr ? "?" : name);
}

std::string encode(const RankEnd& end) {
  return fmt::format("{}{}{} {} {} {} {}{}", kBegin, kTitle, end.rank, end.pid, end.wait_status,
                     end.host, end.last_line, kEnd);
}

std::string RankEndReader::without_reports(std::string_view bytes) {
  std::string rest;
  while (!bytes.empty()) {
    if (report_.empty()) {
      const std::size_t begin = std::min(bytes.find(kBegin), bytes.size());
      rest += bytes.substr(0, begin);
      bytes.remove_prefix(begin);
      if (bytes.empty()) break;
    }
    const std::size_t end = bytes.find(kEnd);
    report_ += bytes.substr(0, end);
    bytes.remove_prefix(std::min(end, bytes.size() - 1) + 1);
    if (end == std::string_view::npos && report_.size() <= kLongestReport) break;
    if (auto decoded = decode(report_)) {
      ends_.push_back(std::move(*decoded));
    } else {  // the program's own
      rest += report_;
      if (end != std::string_view::npos) rest += kEnd;
    }
    report_.clear();
  }
  return rest;
}

}  // namespace horo
