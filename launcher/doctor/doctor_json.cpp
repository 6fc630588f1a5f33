#include <fmt/format.h>

#include "horo/base/text/printable.h"
#include "launcher/doctor/doctor_report.h"

namespace horo {
namespace {

using observe::FlightLog;
using observe::OpenOperation;
using observe::RankSnapshot;
using observe::Verdict;

std::string quote(std::string_view text) { return json_string(text); }

template <typename Items, typename Write>
std::string list(const Items& items, const Write& write) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + write(item);
  return "[" + text + "]";
}

std::string number_list(const std::vector<int>& numbers) {
  return list(numbers, [](int number) { return std::to_string(number); });
}
std::string text_list(const std::vector<std::string>& texts) {
  return list(texts, [](const std::string& text) { return quote(text); });
}

// A time of 0 means that the event has not occurred. In JSON, it becomes null.
std::string seconds(observe::WallTime now, observe::WallTime then) {
  return then == 0 ? "null" : fmt::format("{:.6f}", static_cast<double>(now - then) * 1e-9);
}

std::string kind_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kNone:
      return "none";
    case Verdict::Kind::kDead:
      return "dead";
    case Verdict::Kind::kStopped:
      return "stopped";
    case Verdict::Kind::kSilent:
      return "silent";
    case Verdict::Kind::kFailed:
      return "failed";
    case Verdict::Kind::kEnded:
      return "ended";
    case Verdict::Kind::kDifferentOperations:
      return "different_operations";
    case Verdict::Kind::kMissing:
      return "missing";
    case Verdict::Kind::kLate:
      return "late";
  }
  return "unknown";
}

std::string write_rank(const FlightLog& log, const RankSnapshot& rank, observe::WallTime now) {
  const auto write_open = [&](const OpenOperation& open) {
    return fmt::format(
        R"({{"name": {}, "kind": {}, "process_set": {}, "bytes": {}, "submitted_ago": {}, )"
        R"("started_ago": {}}})",
        quote(open.name), quote(open.kind), quote(open.process_set), open.bytes,
        seconds(now, open.submitted), seconds(now, open.started));
  };
  return fmt::format(
      R"({{"rank": {}, "host": {}, "pid": {}, "state": {}, "failure": {}, "finished": {}, )"
      R"("last_finished": {}, "last_finished_ago": {}, "last_sign_of_life_ago": {}, "phase": {}, )"
      R"("pause": {}, "clock_offset_s": {:.9f}, "open": {}, "unlisted": {}}})",
      rank.rank, quote(rank.host), rank.pid, quote(state_text(log, rank)), quote(rank.failure),
      rank.finished, quote(rank.last_finished), seconds(now, rank.last_finished_at),
      seconds(now, rank.last_sign_of_life), quote(rank.phase), quote(rank.pause),
      static_cast<double>(log.clock_offset) * 1e-9, list(rank.open, write_open), rank.unlisted);
}

}  // namespace

std::string to_json(const DoctorReport& report) {
  std::string ranks;
  for (std::size_t i = 0; i < report.logs.size(); ++i)
    ranks +=
        (i == 0 ? "" : ",\n    ") + write_rank(report.logs[i], report.snapshots[i], report.now);
  return fmt::format(
      R"({{
  "directory": {},
  "size": {},
  "verdict": {{"kind": {}, "blamed": {}, "text": {}}},
  "absent": {},
  "problems": {},
  "ranks": [
    {}
  ]
}}
)",
      quote(report.directory.string()), report.size, quote(kind_of(report.verdict.kind)),
      number_list(report.verdict.blamed), quote(report.verdict.text), number_list(report.absent),
      text_list(report.problems), ranks);
}

}  // namespace horo
