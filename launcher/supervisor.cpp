#include "launcher/supervisor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "horo/observe/wall_clock.h"
#include "launcher/job_leftovers.h"

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReadBytes = 16384;

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

/// The standard error of mpirun and the ranks, with the reports of the ranks' runners.
class JobErrors {
 public:
  JobErrors(int descriptor, OutputQueue& output) : descriptor_(descriptor), output_(output) {}

  /// Passes on what can be read. False at the end of the stream.
  bool pass_on();
  /// Passes on what mpirun has written so far, and no more: it may write on.
  void drain();
  bool are_pending() const;
  /// What was kept as the beginning of a report and is none.
  std::string take_rest() { return rank_ends_.take_rest(); }

  const FailureScanner& reports_of_mpirun() const { return scanner_; }
  const std::vector<RankEnd>& rank_ends() const { return rank_ends_.ends(); }

 private:
  int descriptor_;
  OutputQueue& output_;
  RankEndReader rank_ends_;
  FailureScanner scanner_;
};

bool JobErrors::pass_on() {
  char buffer[kReadBytes];
  const ssize_t count = read(descriptor_, buffer, sizeof(buffer));
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  const std::string text =
      rank_ends_.without_reports(std::string_view(buffer, static_cast<std::size_t>(count)));
  scanner_.feed(text);
  output_.add(text);
  return true;
}

void JobErrors::drain() {
  int pending = 0;
  ioctl(descriptor_, FIONREAD, &pending);
  for (; pending > 0; pending -= kReadBytes)
    if (!pass_on()) return;
}

bool JobErrors::are_pending() const {
  pollfd errors{descriptor_, POLLIN, 0};
  return poll(&errors, 1, 0) > 0 && (errors.revents & POLLIN) != 0;
}

/// Whether a write to this process's standard output, which is mpirun's too, would block.
bool output_is_blocked() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 0;
}

/// The earlier of two poll() timeouts, of which `milliseconds` may be -1 for none.
int earlier(int milliseconds, std::chrono::milliseconds other) {
  const int limit = static_cast<int>(other.count());
  return milliseconds < 0 ? limit : std::min(milliseconds, limit);
}

/// One call of supervise().
class Supervision {
 public:
  Supervision(const ChildProcess& mpirun, SignalInbox& inbox, OutputQueue& errors,
              const Patience& patience, const MonitorTimes& times)
      : mpirun_(mpirun),
        inbox_(inbox),
        output_(errors),
        errors_(mpirun.error_output(), errors),
        escalation_(mpirun, patience),
        monitor_(times) {}

  JobResult run() {
    for (bool has_ended = false; !has_ended;) {
      wait();
      take_signals();
      has_ended = has_mpirun_ended();
      if (!has_ended) look();
    }
    errors_.drain();
    output_.add(errors_.take_rest());
    save_what_is_known();
    if (exit_code_of(result_) != 0) clean_up();
    return std::move(result_);
  }

 private:
  /// Until something happens, and passes on what mpirun has written.
  void wait() {
    pollfd events[] = {
        {inbox_.descriptor(), POLLIN, 0},
        {is_open_ && !output_.is_full() ? mpirun_.error_output() : -1, POLLIN, 0},
        {output_.is_empty() ? -1 : output_.descriptor(), POLLOUT, 0},
    };
    poll(events, std::size(events), earlier(escalation_.advance(), monitor_.time_to_next_look()));
    if (events[1].revents != 0) is_open_ = errors_.pass_on();
    if (events[2].revents != 0) output_.write_some();
  }

  void take_signals() {
    while (const auto signal = inbox_.next()) {
      if (*signal == SIGCHLD) continue;
      if (stops_a_job(*signal)) {
        save_what_is_known();
        if (!result_.stop) result_.stop = {*signal, observe::wall_time_now()};
        escalation_.start();
      }
      mpirun_.send(*signal);
    }
  }

  bool has_mpirun_ended() {
    const auto ended = reap_children();
    const auto mpirun = ended.find(mpirun_.pid());
    if (mpirun == ended.end()) return false;
    result_.wait_status = mpirun->second;
    return true;
  }

  /// Ends the job if it cannot end by itself.
  void look() {
    auto end = monitor_.look({output_is_blocked(), errors_.are_pending(),
                              errors_.reports_of_mpirun().is_aborting(), errors_.rank_ends()});
    if (!end || result_.forced_end) return;
    save_what_is_known();
    escalation_.start_with_term(end->cause);
    result_.forced_end = std::move(end);
  }

  /// What is reported after the job was first told to stop is the consequence.
  void save_what_is_known() {
    if (std::exchange(is_known_, true)) return;
    errors_.drain();
    const FailureScanner& mpirun = errors_.reports_of_mpirun();
    result_.rank_ends = errors_.rank_ends();
    result_.failure = first_failure(result_.rank_ends, mpirun.failure());
    result_.lost_host = mpirun.lost_host();
    if (!monitor_.ranks().job()) result_.launch_error = mpirun.remote_shell_error();
  }

  void clean_up() {
    monitor_.ranks().update();  // those that mpirun left behind
    kill_all_children();
    if (monitor_.ranks().job()) remove_leftovers(*monitor_.ranks().job());
  }

  const ChildProcess& mpirun_;
  SignalInbox& inbox_;
  OutputQueue& output_;
  JobErrors errors_;
  Escalation escalation_;
  JobMonitor monitor_;
  JobResult result_;
  bool is_open_ = true;    // mpirun's standard error
  bool is_known_ = false;  // see save_what_is_known()
};

}  // namespace

std::optional<RankFailure> first_failure(const std::vector<RankEnd>& ends,
                                         const std::optional<RankFailure>& of_mpirun) {
  // Whether code 0 is a failure the rank's record shows. A rank whose output mpirun has closed is
  // killed by SIGPIPE, as a consequence.
  const auto failed = std::ranges::find_if(
      ends, [](const RankEnd& end) { return end.wait_status != 0 && end.wait_status != SIGPIPE; });
  if (failed == ends.end()) return of_mpirun;
  return RankFailure{failed->rank, failed->host, describe(*failed),
                     shell_exit_code(failed->wait_status), failed->last_line};
}

std::optional<int> crash_of_mpirun(const JobResult& result) {
  if (result.stop || result.forced_end || !WIFSIGNALED(result.wait_status)) return std::nullopt;
  return WTERMSIG(result.wait_status);
}

int exit_code_of(const JobResult& result) {
  if (result.stop) return 128 + result.stop->signal;
  const bool is_reported = result.failure && result.failure->exit_code != 0;
  if (is_reported && (result.forced_end || crash_of_mpirun(result)))
    return result.failure->exit_code;
  return result.forced_end ? kForcedEndExitCode : shell_exit_code(result.wait_status);
}

std::vector<int> supervised_signals() {
  return {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
}

JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, OutputQueue& errors,
                    const Patience& patience, const MonitorTimes& times) {
  return Supervision(mpirun, inbox, errors, patience, times).run();
}

void write_out(OutputQueue& output, SignalInbox& inbox,
               std::optional<std::chrono::milliseconds> limit) {
  const Clock::time_point start = Clock::now();
  while (!output.is_empty()) {
    int timeout = -1;
    if (limit) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(start + *limit - Clock::now()).count();
      if (left <= 0) return output.give_up();
      timeout = static_cast<int>(left);
    }
    pollfd events[] = {{inbox.descriptor(), POLLIN, 0}, {output.descriptor(), POLLOUT, 0}};
    poll(events, std::size(events), timeout);
    while (const auto signal = inbox.next())
      if (stops_a_job(*signal)) return output.give_up();
    output.write_some();
  }
}

}  // namespace horo
