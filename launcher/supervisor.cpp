#include "launcher/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "horo/observe/wall_clock.h"

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

}  // namespace

std::vector<int> supervised_signals() {
  return {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
}

JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, const Patience& patience) {
  JobResult result;
  FailureScanner scanner;
  Escalation escalation(mpirun, patience);
  pollfd events[] = {{inbox.descriptor(), POLLIN, 0}, {mpirun.error_output(), POLLIN, 0}};
  for (bool has_ended = false; !has_ended;) {
    poll(events, 2, escalation.advance());
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
    }
  }
  drain_errors(mpirun.error_output(), scanner);
  result.failure = scanner.failure();
  if (result.wait_status != 0 || result.stop) kill_all_children();
  return result;
}

}  // namespace horo
