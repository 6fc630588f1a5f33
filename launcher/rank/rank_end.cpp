#include "launcher/rank/rank_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "launcher/process.h"

namespace horo {
namespace {

// "\x1ehororun-rank-end RANK SIZE PID STATUS HOST ABORT REASON\x1fLAST LINE\n"
constexpr char kBegin = '\x1e';      // the record separator of ASCII
constexpr char kSeparator = '\x1f';  // the unit separator of ASCII
constexpr char kEnd = '\n';
constexpr std::string_view kTitle = "hororun-rank-end ";
constexpr std::size_t kLongestReport = 6000;  // escaped texts are longer than the originals

std::optional<RankEnd> decode(std::string_view report) {
  report.remove_prefix(1);
  if (!report.starts_with(kTitle)) return std::nullopt;
  std::istringstream fields{std::string(report.substr(kTitle.size()))};
  RankEnd end;
  fields >> end.rank >> end.size >> end.pid >> end.wait_status >> end.host;
  if (!fields || fields.get() != ' ') return std::nullopt;
  if (!std::getline(fields, end.abort_reason, kSeparator) || fields.eof()) return std::nullopt;
  std::getline(fields, end.last_line);  // may be empty
  return end;
}

}  // namespace

std::string describe(const RankEnd& end) {
  if (!WIFSIGNALED(end.wait_status))
    return fmt::format("exited with code {}", WEXITSTATUS(end.wait_status));
  return "was killed by " + describe_signal(WTERMSIG(end.wait_status));
}

std::string encode(const RankEnd& end) {
  return fmt::format("{}{}{} {} {} {} {} {}{}{}{}", kBegin, kTitle, end.rank, end.size, end.pid,
                     end.wait_status, end.host, end.abort_reason, kSeparator, end.last_line, kEnd);
}

// A report may be split over several reads, so report_ keeps the beginning of a report until its
// end arrives. A program may write the separator too. Text that begins with a separator but is not
// a report is passed on when it is longer than any report, or when its line has ended.
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
    } else {  // output of the program
      rest += report_;
      if (end != std::string_view::npos) rest += kEnd;
    }
    report_.clear();
  }
  return rest;
}

}  // namespace horo
