#include "launcher/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "horo/observe/wall_clock.h"
#include "launcher/job_leftovers.h"

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

/// SIGTERM, then SIGKILL, for a job that does not stop by itself.
class Escalation {
 public:
  Escalation(const ChildProcess& mpirun, const Patience& patience)
      : mpirun_(mpirun), patience_(patience) {}

  void start() {
    if (stage_ == Stage::kNone) enter(Stage::kAsked, patience_.before_term);
  }
  /// The same, with SIGTERM as the first step.
  void start_with_term(ForcedEnd::Cause cause) {
    if (stage_ != Stage::kNone) return;
    if (cause == ForcedEnd::Cause::kNoRankRuns)
      patience_.before_kill = patience_.before_kill_without_ranks;
    enter(Stage::kAsked, {});
  }

  /// Takes the next step if its time has come. Milliseconds until the step after, -1 if there is
  /// none.
  int advance() {
    if (stage_ == Stage::kAsked && Clock::now() >= deadline_) {
      mpirun_.send_to_group(SIGTERM);
      enter(Stage::kTerminated, patience_.before_kill);
    } else if (stage_ == Stage::kTerminated && Clock::now() >= deadline_) {
      mpirun_.send_to_group(SIGKILL);
      stage_ = Stage::kKilled;
    }
    if (stage_ == Stage::kNone || stage_ == Stage::kKilled) return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    return left < 0 ? 0 : static_cast<int>(left);
  }

 private:
  enum class Stage { kNone, kAsked, kTerminated, kKilled };

  void enter(Stage stage, std::chrono::milliseconds time) {
    stage_ = stage;
    deadline_ = Clock::now() + time;
  }

  const ChildProcess& mpirun_;
  Patience patience_;
  Stage stage_ = Stage::kNone;
  Clock::time_point deadline_;
};

bool stops_a_job(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

void write_all(const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = write(STDERR_FILENO, bytes, count);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;  // nobody reads it
    if (written <= 0) continue;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

/// Copies what can be read to this process's standard error. False at the end of the stream.
bool pass_on_errors(int descriptor, FailureScanner& scanner) {
  char buffer[16384];
  const ssize_t count = read(descriptor, buffer, sizeof(buffer));
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  scanner.feed({buffer, static_cast<std::size_t>(count)});
  write_all(buffer, static_cast<std::size_t>(count));
  return true;
}

void drain_errors(int descriptor, FailureScanner& scanner) {
  pollfd ready{descriptor, POLLIN, 0};
  while (poll(&ready, 1, 0) > 0 && pass_on_errors(descriptor, scanner)) {
  }
}

/// Whether a write to this process's standard output, which is mpirun's too, would block.
bool output_is_blocked() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 0;
}

bool has_pending_errors(int descriptor) {
  pollfd errors{descriptor, POLLIN, 0};
  return poll(&errors, 1, 0) > 0 && (errors.revents & POLLIN) != 0;
}

/// The earlier of two poll() timeouts, of which `milliseconds` may be -1 for none.
int earlier(int milliseconds, std::chrono::milliseconds other) {
  const int limit = static_cast<int>(other.count());
  return milliseconds < 0 ? limit : std::min(milliseconds, limit);
}

}  // namespace

int exit_code_of(const JobResult& result) {
  if (result.stop) return 128 + result.stop->signal;
  if (!result.forced_end) return shell_exit_code(result.wait_status);
  const bool is_known = result.failure && result.failure->exit_code != 0;
  return is_known ? result.failure->exit_code : kForcedEndExitCode;
}

std::vector<int> supervised_signals() {
  return {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
}

JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, const Patience& patience,
                    const MonitorTimes& times) {
  JobResult result;
  FailureScanner scanner;
  Escalation escalation(mpirun, patience);
  JobMonitor monitor(times);
  pollfd events[] = {{inbox.descriptor(), POLLIN, 0}, {mpirun.error_output(), POLLIN, 0}};
  for (bool has_ended = false; !has_ended;) {
    poll(events, 2, earlier(escalation.advance(), monitor.time_to_next_look()));
    if (events[1].revents != 0 && !pass_on_errors(mpirun.error_output(), scanner))
      events[1].fd = -1;
    while (const auto signal = inbox.next()) {
      if (*signal == SIGCHLD) continue;
      mpirun.send(*signal);
      if (!stops_a_job(*signal)) continue;
      if (!result.stop) result.stop = {*signal, observe::wall_time_now()};
      escalation.start();
    }
    const auto ended = reap_children();
    if (const auto it = ended.find(mpirun.pid()); it != ended.end()) {
      result.wait_status = it->second;
      has_ended = true;
    } else if (auto end =
                   monitor.look({output_is_blocked(), has_pending_errors(mpirun.error_output()),
                                 scanner.is_aborting()});
               end && !result.forced_end) {
      result.forced_end = std::move(end);
      // What mpirun reports from now on is the consequence.
      result.failure = scanner.failure();
      escalation.start_with_term(result.forced_end->cause);
    }
  }
  drain_errors(mpirun.error_output(), scanner);
  if (!result.forced_end) result.failure = scanner.failure();
  if (exit_code_of(result) != 0) {
    result.first_ended = monitor.first_ended();
    result.lost_host = scanner.lost_host();
    if (!monitor.ranks().job()) result.launch_error = scanner.remote_shell_error();
    monitor.ranks().update();  // those that mpirun left behind
    kill_all_children();
    if (monitor.ranks().job()) remove_leftovers(*monitor.ranks().job());
  }
  return result;
}

}  // namespace horo
