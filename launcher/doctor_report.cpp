#include "launcher/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "horo/base/error.h"
#include "horo/observe/diagnose.h"
#include "horo/observe/flight_directory.h"
#include "horo/observe/missing_operations.h"

namespace horo {
namespace {

using observe::FlightLog;
using observe::Liveness;
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

// Signals such as SIGTERM end the ranks that are left. The first rank to end was left by nobody.
bool was_killed_first(const FlightLog& log, const observe::FirstEnd& end) {
  return observe::was_ended_from_outside(log) &&
         end.how.starts_with(fmt::format("was killed by signal {} ", log.signal));
}

// How the launcher saw the rank end, and which call of horo it had not made.
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

// A rank that is gone and left no reason ended as the launcher says. The reason that a rank has
// left stays, with what the launcher says beside it.
void note_end(DoctorReport& report, const observe::FirstEnd& end) {
  constexpr observe::WallTime kLongestEnd = 600'000'000'000;  // of a job, from its first dead rank
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

}  // namespace

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
        "{}: no flight recorder's file that can be read{}; name the directory that HORO_FLIGHT_DIR "
        "or the job's error named",
        directory.string(), report.problems.empty() ? "" : " (" + report.problems[0] + ")"));
  if (const auto stop = observe::stop_noted_in(directory))
    for (FlightLog& log : report.logs) observe::note_stop_order(log, stop->signal, stop->at);
  note_absent(report);
  for (const FlightLog& log : report.logs) {
    report.snapshots.push_back(observe::snapshot_of(log));
    report.now = std::max(report.now, report.snapshots.back().taken);
  }
  if (const auto end = observe::first_end_noted_in(directory)) note_end(report, *end);
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
        "\nno file of {} here: its host may keep it, or it had ended well, or never joined",
        observe::name_ranks(report.absent));
  return text;
}

}  // namespace horo
