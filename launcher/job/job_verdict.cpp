#include "launcher/job/job_verdict.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "horo/diagnosis/diagnose.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/diagnosis/rank_format.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "launcher/doctor/doctor_report.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

std::string exit_code_text(int exit_code) {
  const int signal = exit_code - 128;
  const char* name = signal > 0 ? sigdescr_np(signal) : nullptr;
  return name == nullptr ? std::to_string(exit_code)
                         : fmt::format("{} (signal {}, {})", exit_code, signal, name);
}

std::optional<fs::path> flight_directory(const std::string& setting) {
  const auto place = observe::flight_location(setting, 0);
  return place ? std::optional(place->directory) : std::nullopt;
}

std::uint64_t newest_job_in(const fs::path& directory) {
  std::uint64_t newest = 0;
  for (const fs::path& file : observe::flight_files(directory)) {
    try {
      newest = std::max(newest, observe::read_flight(file.string()).job);
    } catch (const Error&) {  // NOLINT: a file that cannot be read is skipped
    }
  }
  return newest;
}

void leave_notes(const fs::path& directory, const JobResult& result) {
  if (result.stop) observe::record_stop_request(directory, *result.stop);
  if (result.failure && !result.stop)
    observe::record_first_end(
        directory, {result.failure->rank, observe::wall_time_now(), result.failure->how});
}

const observe::RankSnapshot* find_rank(const DoctorReport& report, int rank) {
  const auto found = std::ranges::find(report.snapshots, rank, &observe::RankSnapshot::rank);
  return found == report.snapshots.end() ? nullptr : &*found;
}

std::string describe_lost_host(const std::string& host) {
  return fmt::format(
      "mpirun has lost the connection to host {}: the host is gone, or the network to it is cut",
      host);
}

std::string describe(const ForcedEnd& end) { return end.text + "; hororun ended the job"; }

std::string describe_last_line(const RankFailure& failure) {
  return failure.last_line.empty()
             ? ""
             : fmt::format("; its last line on standard error is '{}'", failure.last_line);
}

// Returns a text such as "rank 1 (host b) exited with code 0".
std::string describe_end(const RankEnd& end) {
  return fmt::format("rank {} (host {}) {}", end.rank, end.host, describe(end));
}

// If horo ended the process of the rank with kForcedEndExitCode, returns the reason from the last
// line of the rank, such as "rank 3 (host b) has waited 13 s in horo::init() for ranks of other
// hosts ...". If the rank ended for another reason, returns an empty text.
std::string reason_of_timeout(const RankFailure& failure) {
  const std::string& line = failure.last_line;
  const std::size_t label = line.find("] ");
  if (failure.exit_code != kForcedEndExitCode || label == std::string::npos) return {};
  for (const std::string_view mark : {observe::kEndOfReasonInInit, observe::kEndOfReason})
    if (const std::size_t end = line.rfind(mark); end != std::string::npos && end > label)
      return line.substr(label + 2, end - label - 2);
  return {};
}

// Returns why horo ended the process or aborted the rank. Empty if the rank ended for another
// reason.
std::string reason_of_end(const RankFailure& failure) {
  std::string reason = reason_of_timeout(failure);
  return reason.empty() ? failure.abort_reason : reason;
}

std::string describe_without_records(const JobResult& result, int exit_code) {
  if (result.lost_host) return describe_lost_host(*result.lost_host);
  if (result.failure) {
    if (std::string reason = reason_of_end(*result.failure); !reason.empty()) return reason;
    return fmt::format("{}{}; no rank left a flight record{}", describe(*result.failure),
                       describe_last_line(*result.failure),
                       result.failure->last_line.empty() ? ", so look at its output above" : "");
  }
  if (result.forced_end) return describe(*result.forced_end);
  if (result.launch_error)
    return "mpirun could not start ranks on another host: " + *result.launch_error;
  if (!result.rank_ends.empty())
    return fmt::format("{} before other ranks, and the job ended with exit code {}",
                       describe_end(result.rank_ends.front()), exit_code_text(exit_code));
  return fmt::format("the job failed with exit code {}; mpirun did not name a rank",
                     exit_code_text(exit_code));
}

std::chrono::nanoseconds stall_warning() {
  return parse_environment(process_environment()).settings.stall_warning;
}

// Whether the verdict may explain why mpirun lost the connection to a host. A failure or a death of
// a rank may explain it, but a wait does not.
bool explains_lost_host(const observe::Verdict& verdict) {
  using Kind = observe::Verdict::Kind;
  return verdict.kind == Kind::kFailed || verdict.kind == Kind::kDead;
}

// Whether the verdict blames only ranks of `host`.
bool is_about_host(const DoctorReport& report, const std::string& host) {
  const std::vector<int>& blamed = report.verdict.blamed;
  return !blamed.empty() && std::ranges::all_of(blamed, [&](int rank) {
    const auto* snapshot = find_rank(report, rank);
    return snapshot != nullptr && snapshot->host == host;
  });
}

// Returns the first rank that exited with code 0 although, according to its record, the rank was
// still running. Ignores ranks that ended after a rank that failed.
std::optional<RankFailure> early_end(const DoctorReport& report, std::span<const RankEnd> ends) {
  for (const RankEnd& end : ends) {
    if (end.wait_status != 0) break;
    const auto log = std::ranges::find(report.logs, end.rank, &observe::FlightLog::rank);
    if (log != report.logs.end() && log->state == observe::FlightState::kRunning)
      return RankFailure{end.rank, end.host, describe(end), 1, end.last_line};
  }
  return std::nullopt;
}

// Whether the verdict is that the rank failed with an exception. horo cannot read the text of an
// exception that the program throws itself, so the record may not explain the failure.
bool is_unexplained(const observe::Verdict& verdict, int rank) {
  return verdict.kind == observe::Verdict::Kind::kFailed && verdict.blamed.front() == rank &&
         verdict.text.find(" failed with an exception") != std::string::npos;
}

// Returns the position of the first "; " outside of parentheses. Inside parentheses, "; " separates
// the names of ranks on several hosts.
std::size_t end_of_first_clause(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(';
    depth -= text[i] == ')';
    if (depth == 0 && text.compare(i, 2, "; ") == 0) return i;
  }
  return std::string::npos;
}

// The exceptions of aborted ranks have the text of the watchdog, and the verdict may have the same
// text. If the program has printed that text, returns only its first clause and the timeout.
std::string without_printed_details(const std::string& text, const std::string& printed) {
  const std::size_t details = end_of_first_clause(text);
  if (details == std::string::npos || printed.find(text) == std::string::npos) return text;
  const std::size_t timeout = text.rfind(observe::kTimeoutMark);
  return fmt::format("{}{}; details are above", text.substr(0, details),
                     timeout == std::string::npos || timeout < details ? "" : text.substr(timeout));
}

// Adds a rank without a record, for example on another host, and computes the verdict again. The
// reports of the runner and of mpirun are the only sources for such a rank.
void add_unrecorded(DoctorReport& report, const RankFailure& failure,
                    std::chrono::nanoseconds stall_after) {
  observe::RankSnapshot& rank = report.snapshots.emplace_back();
  rank.rank = failure.rank;
  rank.host = failure.host.empty() ? "?" : failure.host;
  rank.liveness = observe::Liveness::kDead;
  rank.ending = failure.how + describe_last_line(failure);
  rank.last_sign_of_life = rank.taken = report.now;
  report.verdict = observe::diagnose(report.snapshots, report.now, stall_after);
}

}  // namespace

std::string flight_setting_for_job(const std::string& setting) {
  if (!setting.empty() && setting != "auto") return setting;
  const auto now =
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return fmt::format("auto:{:016x}-{}", now, getpid());
}

JobVerdict::JobVerdict(std::string flight_setting) : flight_setting_(std::move(flight_setting)) {
  if (const auto directory = flight_directory(flight_setting_))
    older_job_ = newest_job_in(*directory);
}

std::optional<DoctorReport> JobVerdict::read_records() const {
  const auto directory = flight_directory(flight_setting_);
  if (!directory || observe::flight_files(*directory).empty()) return std::nullopt;
  try {
    return examine(*directory, stall_warning(), older_job_);
  } catch (const Error&) {
    return std::nullopt;
  }
}

int JobVerdict::exit_code(const JobResult& result) const {
  const int reported = exit_code_of(result);
  if (reported == 128 + SIGPIPE) {
    const auto report = read_records();
    const auto early = report ? early_end(*report, result.rank_ends) : std::nullopt;
    return early ? early->exit_code : reported;
  }
  if (!crash_of_mpirun(result) || result.failure) return reported;
  const auto report = read_records();
  if (!report || report->verdict.kind != observe::Verdict::Kind::kFailed) return reported;
  const int first = report->verdict.blamed.front();
  const auto log = std::ranges::find(report->logs, first, &observe::FlightLog::rank);
  // If the blamed rank has no record or was aborted, its own exit code is unknown.
  if (log == report->logs.end() || log->state == observe::FlightState::kAborted)
    return kForcedEndExitCode;
  if (log->signal != 0 && !observe::was_terminated_by_signal(*log)) return 128 + log->signal;
  return log->state == observe::FlightState::kFailed ? 1 : kForcedEndExitCode;
}

std::string JobVerdict::of_records(JobResult result) const {
  const auto directory = flight_directory(flight_setting_);
  auto records = read_records();
  if (!records) return {};
  if (auto early = early_end(*records, result.rank_ends)) result.failure = std::move(early);
  leave_notes(*directory, result);
  records = read_records();  // now with the notes of the launcher
  if (!records) return {};
  DoctorReport& report = *records;
  const bool is_failure = report.verdict.kind == observe::Verdict::Kind::kFailed;
  const bool is_added =
      result.failure && !is_failure && find_rank(report, result.failure->rank) == nullptr;
  if (is_added) add_unrecorded(report, *result.failure, stall_warning());
  std::string text = report.verdict.text;
  if (is_added)
    if (std::string reason = reason_of_end(*result.failure); !reason.empty())
      text = std::move(reason);
  if (result.failure && is_unexplained(report.verdict, result.failure->rank))
    text += describe_last_line(*result.failure);
  if (text.empty() && result.failure) {
    text = describe(*result.failure);
    if (const auto* rank = find_rank(report, result.failure->rank))
      text = fmt::format("rank {} (host {}, pid {}) {}", rank->rank, rank->host, rank->pid,
                         result.failure->how);
    text += "; its record shows no failure";
  }
  if (result.lost_host && !explains_lost_host(report.verdict))
    text = describe_lost_host(*result.lost_host) +
           (is_about_host(report, *result.lost_host) ? "; " + text : "");
  if (text.empty() && result.forced_end && !result.stop) text = describe(*result.forced_end);
  if (text.empty()) text = verdict_text(report);
  text = without_printed_details(text, result.printed);
  return fmt::format("hororun: {}\nhororun: more: hororun doctor {}\n", text,
                     printable(directory->string()));
}

// Makes the text printable, because parts of it are lines of mpirun, ssh and the ranks.
std::string JobVerdict::text(const JobResult& result, int exit_code) const {
  std::string text = printable_lines(of_records(result));
  if (result.stop)
    return fmt::format("hororun: stopped by {}\n{}", describe_signal(result.stop->signal), text);
  if (text.empty())
    text =
        printable_lines(fmt::format("hororun: {}\n", describe_without_records(result, exit_code)));
  if (const auto signal = crash_of_mpirun(result))
    text += fmt::format("hororun: mpirun itself was killed by {}\n", describe_signal(*signal));
  return text;
}

}  // namespace horo
