#include "launcher/doctor/doctor_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <span>
#include <string_view>

#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "horo/base/text/quantity.h"
#include "horo/diagnosis/diagnose.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/flight_recorder/flight_directory.h"

namespace horo {
namespace {

using observe::FlightLog;
using observe::Liveness;
using observe::OpenOperation;
using observe::RankSnapshot;

std::uint64_t newest_job(std::span<const FlightLog> logs) {
  std::uint64_t newest = 0;
  for (const FlightLog& log : logs) newest = std::max(newest, log.job);
  return newest;
}

void keep_newest_job(DoctorReport& report, std::uint64_t older_job) {
  const std::uint64_t newest = newest_job(report.logs);
  if (newest <= older_job) report.logs.clear();
  std::erase_if(report.logs, [&](const FlightLog& log) {
    if (log.job == newest) return false;
    report.problems.push_back(fmt::format("{}: of another job", log.path));
    return true;
  });
}

// Whether a signal such as SIGTERM killed this rank, which must be the rank that the launcher
// reports as the first one that ended. The launcher sends such signals to the remaining ranks after
// a failure, but not to the first rank.
bool was_killed_first(const FlightLog& log, const observe::FirstEnd& end) {
  return observe::was_terminated_by_signal(log) &&
         end.how.starts_with(fmt::format("was killed by signal {} ", log.signal));
}

// Returns how the rank ended according to the launcher. If the rank exited, the text also states
// which call of horo is missing.
std::string ending_of(const FlightLog& log, const observe::FirstEnd& end) {
  constexpr std::string_view kExit = "exited with code ";
  if (!end.how.starts_with(kExit)) return end.how;
  const std::string code = end.how.substr(0, end.how.find(' ', kExit.size()));
  const bool has_shut_down =
      std::ranges::any_of(log.finished_events, [](const observe::FlightEvent& event) {
        return event.name == observe::kShutdownName && event.process_set.empty();
      });
  return code + (has_shut_down ? " after Context::shutdown(), before its Context was destroyed"
                               : " without calling Context::shutdown()");
}

// Adds the launcher's report of how the first rank ended. For a dead rank without a recorded
// failure, this report is the reason. For a rank with a recorded failure, it is additional
// information.
void note_end(DoctorReport& report, const observe::FirstEnd& end) {
  // The longest time from the last heartbeat of a rank to the report of its end, in ns.
  constexpr observe::WallTime kLongestEnd = 600'000'000'000;
  for (std::size_t i = 0; i < report.snapshots.size(); ++i) {
    RankSnapshot& rank = report.snapshots[i];
    if (rank.rank != end.rank || end.at - rank.last_sign_of_life >= kLongestEnd) continue;
    if (rank.failure.empty() && was_killed_first(report.logs[i], end))
      rank.liveness = Liveness::kDead;
    if (!rank.failure.empty() || rank.liveness == Liveness::kDead)
      rank.ending = ending_of(report.logs[i], end);
  }
}

void note_absent(DoctorReport& report) {
  for (const FlightLog& log : report.logs) report.size = std::max(report.size, log.size);
  std::vector<bool> is_here(static_cast<std::size_t>(std::max(report.size, 0)), false);
  for (const FlightLog& log : report.logs)
    if (log.rank >= 0 && log.rank < report.size) is_here[static_cast<std::size_t>(log.rank)] = true;
  for (int rank = 0; rank < report.size; ++rank)
    if (!is_here[static_cast<std::size_t>(rank)]) report.absent.push_back(rank);
}

constexpr std::size_t kColumns = 7;
constexpr std::size_t kLongestCell = 36;
using Row = std::array<std::string, kColumns>;

// Shortens a text to kLongestCell bytes. Does not split a character of UTF-8.
std::string cut(const std::string& text) {
  if (text.size() <= kLongestCell) return text;
  std::size_t end = kLongestCell - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string waiting_for(const RankSnapshot& rank, observe::WallTime now) {
  if (!rank.pause.empty()) return fmt::format("(pause '{}')", rank.pause);
  if (rank.open.empty() && rank.unlisted > 0) return format_count(rank.unlisted, "operation");
  if (rank.open.empty()) return rank.phase.empty() ? "-" : fmt::format("(in '{}')", rank.phase);
  const OpenOperation& oldest = rank.open.front();
  const std::uint64_t others = rank.open.size() - 1 + rank.unlisted;
  const std::string more = others == 0 ? "" : fmt::format(" +{}", others);
  return fmt::format("{}{}, {}", cut(oldest.name), more,
                     format_nanoseconds(now - oldest.submitted));
}

std::string last_finished(const RankSnapshot& rank, observe::WallTime now) {
  if (rank.last_finished.empty()) return "-";
  return fmt::format("{}, {} ago", cut(rank.last_finished),
                     format_nanoseconds(now - rank.last_finished_at));
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> width{};
  for (const Row& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < kColumns; ++c) line += fmt::format("{:<{}}  ", row[c], width[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string date_of(observe::WallTime time) {
  const std::time_t seconds = time / 1'000'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(seconds));
}

}  // namespace

// The job may still run, or its ranks may have been killed at any instruction. A file that cannot
// be read becomes an entry of report.problems, because a verdict on the other ranks is still
// possible. report.now is the latest time of a snapshot, so that a report on an old job does not
// include the time after the end of that job.
DoctorReport examine(const std::filesystem::path& directory, std::chrono::nanoseconds stall_after,
                     std::uint64_t older_job) {
  DoctorReport report;
  report.directory = directory;
  for (const auto& file : observe::flight_files(directory)) {
    try {
      report.logs.push_back(observe::read_flight(file.string()));
    } catch (const Error& error) {
      report.problems.emplace_back(error.what());
    }
  }
  keep_newest_job(report, older_job);
  if (report.logs.empty())
    throw InvalidArgument(fmt::format(
        "{}: no readable file of a flight recorder{}; give the directory that HORO_FLIGHT_DIR or "
        "the error of the job names",
        directory.string(), report.problems.empty() ? "" : " (" + report.problems[0] + ")"));
  if (const auto stop = observe::read_stop_request(directory))
    for (FlightLog& log : report.logs) observe::apply_stop_request(log, stop->signal, stop->at);
  note_absent(report);
  for (const FlightLog& log : report.logs) {
    report.snapshots.push_back(observe::snapshot_of(log));
    report.now = std::max(report.now, report.snapshots.back().taken);
  }
  if (const auto end = observe::read_first_end(directory)) note_end(report, *end);
  report.verdict = observe::diagnose(report.snapshots, report.now, stall_after);
  return report;
}

std::string state_text(const FlightLog& log, const RankSnapshot& snapshot) {
  if (log.state == observe::FlightState::kAborted) return "aborted";
  if (!log.failure.empty()) return "failed";
  if (log.state == observe::FlightState::kEnded) return "ended";
  if (log.signal != 0) return fmt::format("signal {}", log.signal);
  switch (snapshot.liveness) {
    case Liveness::kRunning:
      return "running";
    case Liveness::kStopped:
      return "stopped";
    case Liveness::kSilent:
      return "silent";
    case Liveness::kDead:
      return "dead";
    case Liveness::kEnded:
      break;
  }
  return "leaving";
}

std::string verdict_text(const DoctorReport& report) {
  std::string text = report.verdict.text;
  if (text.empty()) text = "nothing is wrong as far as these files show";
  if (!report.absent.empty())
    text += fmt::format(
        "\nno file of {} here: it may be on another host; a rank that succeeded or never joined "
        "the "
        "job has no file",
        observe::format_ranks(report.absent));
  return text;
}

std::string to_text(const DoctorReport& report) {
  std::string text = fmt::format(
      "{}: a job of {} rank{}, begun {}, seen {}\n\n", printable(report.directory.string()),
      report.size, report.size == 1 ? "" : "s", date_of(report.logs[0].begun), date_of(report.now));
  text += verdict_text(report) + "\n\n";
  std::vector<Row> rows = {
      {"rank", "host", "pid", "state", "finished", "last finished", "waiting for"}};
  constexpr std::size_t kMostRows = 64;
  for (std::size_t i = 0; i < report.logs.size() && i < kMostRows; ++i) {
    const RankSnapshot& rank = report.snapshots[i];
    rows.push_back({std::to_string(rank.rank), cut(rank.host), std::to_string(rank.pid),
                    state_text(report.logs[i], rank), std::to_string(rank.finished),
                    last_finished(rank, report.now), waiting_for(rank, report.now)});
  }
  text += table(rows);
  if (report.logs.size() > kMostRows)
    text +=
        fmt::format("... and {} more ranks; --json has them all\n", report.logs.size() - kMostRows);
  for (const std::string& problem : report.problems)
    text += "left aside: " + printable(problem) + "\n";
  return text;
}

}  // namespace horo
