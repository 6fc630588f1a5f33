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

#include "horo/flight_recorder/rank_snapshot.h"
#include "launcher/job/job_leftovers.h"
#include "launcher/rank/stop_signal.h"

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReadBytes = 16384;
constexpr std::chrono::seconds kAnnounceInterval(5);
// The maximum number of bytes of the job's standard error that are kept for a comparison with the
// verdict.
constexpr std::size_t kPrintedBytes = 64 * 1024;

/// Sends signals to a job that is to stop: first kStopSignal if the ranks are to end in order, then
/// SIGTERM, then SIGKILL.
class Escalation {
 public:
  Escalation(const ChildProcess& mpirun, const Patience& patience)
      : mpirun_(mpirun), patience_(patience) {}

  /// Lets the ranks end in order. Returns false if it is too late for that.
  bool start_in_order() {
    if (stage_ != Stage::kNone || patience_.before_stop.count() == 0) return false;
    enter(Stage::kEndsInOrder, patience_.before_stop);
    announce();
    return true;
  }
  /// For a signal that mpirun has got.
  void start() {
    if (stage_ <= Stage::kEndsInOrder) enter(Stage::kAsked, patience_.before_term);
  }
  /// The same, but sends SIGTERM at once.
  void start_with_term(ForcedEnd::Cause cause) {
    if (stage_ != Stage::kNone) return;
    if (cause == ForcedEnd::Cause::kNoRankRuns)
      patience_.before_kill = patience_.before_kill_without_ranks;
    enter(Stage::kAsked, {});
  }

  /// Sends the next signal if its time has come. Returns the milliseconds until the following
  /// signal, or -1 if there is none.
  int advance() {
    const bool is_in_order = stage_ == Stage::kEndsInOrder;
    if (is_in_order && Clock::now() >= announce_at_) announce();
    if (is_in_order && Clock::now() >= deadline_) {
      mpirun_.send(SIGTERM);
      enter(Stage::kAsked, patience_.before_term);
    } else if (stage_ == Stage::kAsked && Clock::now() >= deadline_) {
      mpirun_.send_to_group(SIGTERM);
      enter(Stage::kTerminated, patience_.before_kill);
    } else if (stage_ == Stage::kTerminated && Clock::now() >= deadline_) {
      mpirun_.send_to_group(SIGKILL);
      stage_ = Stage::kKilled;
    }
    if (stage_ == Stage::kNone || stage_ == Stage::kKilled) return -1;
    const auto next = stage_ == Stage::kEndsInOrder ? std::min(deadline_, announce_at_) : deadline_;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    return left < 0 ? 0 : static_cast<int>(left);
  }

 private:
  enum class Stage { kNone, kEndsInOrder, kAsked, kTerminated, kKilled };

  void enter(Stage stage, std::chrono::milliseconds time) {
    stage_ = stage;
    deadline_ = Clock::now() + time;
  }

  // mpirun ignores the signal until it has started the ranks, so it is repeated.
  void announce() {
    mpirun_.send(kStopSignal);
    announce_at_ = Clock::now() + kAnnounceInterval;
  }

  const ChildProcess& mpirun_;
  Patience patience_;
  Stage stage_ = Stage::kNone;
  Clock::time_point deadline_, announce_at_;
};

bool stops_a_job(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

/// Reads the standard error of mpirun and the ranks, and removes the reports of the runners from
/// it.
class JobErrors {
 public:
  JobErrors(int descriptor, OutputQueue& output) : descriptor_(descriptor), output_(output) {}

  /// Forwards the bytes that can be read now. Returns false at the end of the stream.
  bool pass_on();
  /// Forwards the bytes that were written before this call. Does not wait for bytes that are
  /// written during the call.
  void drain();
  bool are_pending() const;
  /// At the end of the stream, returns the bytes of an incomplete report.
  std::string take_rest() { return rank_ends_.take_rest(); }

  const FailureScanner& reports_of_mpirun() const { return scanner_; }
  const std::vector<RankEnd>& rank_ends() const { return rank_ends_.ends(); }
  /// The last bytes that were passed on.
  const std::string& printed() const { return printed_; }

 private:
  int descriptor_;
  OutputQueue& output_;
  std::string printed_;
  RankEndReader rank_ends_;
  FailureScanner scanner_;
};

// Removes the reports of the runners first, because they are neither for the console nor for the
// scanner.
bool JobErrors::pass_on() {
  char buffer[kReadBytes];
  const ssize_t count = read(descriptor_, buffer, sizeof(buffer));
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  const std::string text =
      rank_ends_.without_reports(std::string_view(buffer, static_cast<std::size_t>(count)));
  scanner_.feed(text);
  output_.add(text);
  printed_ += text;
  if (printed_.size() > kPrintedBytes) printed_.erase(0, printed_.size() - kPrintedBytes / 2);
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

/// Whether a write to standard output would block. mpirun has the same standard output.
bool output_is_blocked() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 0;
}

/// The earlier of two timeouts for poll(). `milliseconds` is -1 for no timeout.
int earlier(int milliseconds, std::chrono::milliseconds other) {
  const int limit = static_cast<int>(other.count());
  return milliseconds < 0 ? limit : std::min(milliseconds, limit);
}

/// The state of one call of supervise(). One thread handles signals, output and the monitor in
/// turn. While mpirun runs, the thread waits only in poll(), so neither a slow reader nor a silent
/// job delays a signal.
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
    result_.printed = errors_.printed();
    if (exit_code_of(result_) != 0) clean_up();
    return std::move(result_);
  }

 private:
  /// Waits for the next event, and forwards the standard error of mpirun.
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
        if (*signal == SIGTERM && escalation_.start_in_order()) continue;
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

  /// Starts to end the job if the monitor reports that the job cannot end by itself.
  void look() {
    auto end = monitor_.look({output_is_blocked(), errors_.are_pending(),
                              errors_.reports_of_mpirun().is_aborting(), errors_.rank_ends()});
    if (!end || result_.forced_end) return;
    save_what_is_known();
    escalation_.start_with_term(end->cause);
    result_.forced_end = std::move(end);
  }

  /// Saves the reports so far. Called before the job is stopped for the first time, or after its
  /// end. Only the first call has an effect, because reports after a stop are consequences of the
  /// stop.
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
    monitor_.ranks().update();  // ranks that mpirun left behind
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
  bool is_open_ = true;    // whether the standard error of mpirun is open
  bool is_known_ = false;  // see save_what_is_known()
};

}  // namespace

std::optional<RankFailure> first_failure(const std::vector<RankEnd>& ends,
                                         const std::optional<RankFailure>& of_mpirun) {
  // Exit code 0 may be a failure too, but only the flight record shows this. A rank that was killed
  // by SIGPIPE is not taken as the first failure, because mpirun has probably closed the output of
  // that rank before.
  const auto failed = std::ranges::find_if(
      ends, [](const RankEnd& end) { return end.wait_status != 0 && end.wait_status != SIGPIPE; });
  if (failed == ends.end()) return of_mpirun;
  return RankFailure{failed->rank,      failed->host,
                     describe(*failed), shell_exit_code(failed->wait_status),
                     failed->last_line, failed->abort_reason};
}

std::optional<int> crash_of_mpirun(const JobResult& result) {
  if (result.stop || result.forced_end || !WIFSIGNALED(result.wait_status)) return std::nullopt;
  return WTERMSIG(result.wait_status);
}

int exit_code_of(const JobResult& result) {
  if (result.stop) return result.wait_status == 0 ? 0 : 128 + result.stop->signal;
  const int of_mpirun = shell_exit_code(result.wait_status);
  const bool is_reported = result.failure && result.failure->exit_code != 0;
  if (is_reported && (result.forced_end || crash_of_mpirun(result) || of_mpirun == 128 + SIGPIPE))
    return result.failure->exit_code;
  return result.forced_end ? kForcedEndExitCode : of_mpirun;
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
