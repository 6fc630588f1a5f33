#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_reader.h"
#include "launcher/commands.h"
#include "launcher/job/job_leftovers.h"
#include "launcher/machine.h"
#include "launcher/process.h"
#include "launcher/program_search.h"
#include "launcher/rank/rank_cleaner.h"
#include "launcher/rank/rank_end.h"
#include "launcher/rank/stop_signal.h"

namespace horo {
namespace {

constexpr std::size_t kCopiedBytes = 16384;

/// Keeps the last non-blank line of a stream, up to 600 bytes.
class LastLine {
 public:
  void feed(std::string_view bytes) {
    constexpr std::size_t kMostBytes = 600;
    for (const char c : bytes) {
      if (c == '\n')
        finish();
      else if (line_.size() < kMostBytes)
        line_ += c;
    }
  }
  std::string text() {
    finish();
    return last_;
  }

 private:
  void finish() {
    if (line_.find_first_not_of(" \t\r") != std::string::npos) last_ = line_;
    line_.clear();
  }

  std::string line_, last_;
};

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      pollfd output{STDERR_FILENO, POLLOUT, 0};
      poll(&output, 1, -1);
      continue;
    }
    if (count < 0) return;  // the reader has closed it
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// Copies up to kCopiedBytes that can be read now to standard error. Returns false at the end of
/// the stream, or if no bytes can be read.
bool pass_on(int descriptor, LastLine& last) {
  char buffer[kCopiedBytes];
  const ssize_t count = read(descriptor, buffer, sizeof buffer);
  if (count <= 0) return count < 0 && errno == EINTR;
  const std::string_view bytes(buffer, static_cast<std::size_t>(count));
  last.feed(bytes);
  write_all(bytes);
  return true;
}

/// Sends SIGTERM to the program and its children. The signal also reaches this process, which has
/// it in its inbox.
void stop_in_order(const ChildProcess& program) {
  if (getpgrp() == getpid())
    kill(0, SIGTERM);
  else
    program.send(SIGTERM);
}

/// Takes the pending signals. Returns whether one of them stops the job. kStopSignal has an effect
/// unless a signal has stopped the job before, which the program has then got as well.
bool take_signals(SignalInbox& inbox, const ChildProcess& program, bool is_stopped) {
  while (const auto signal = inbox.next()) {
    if (*signal == kStopSignal && !is_stopped) stop_in_order(program);
    is_stopped |=
        *signal == kStopSignal || *signal == SIGTERM || *signal == SIGINT || *signal == SIGHUP;
  }
  return is_stopped;
}

/// The wait status of the program, if it has ended.
std::optional<int> take_end(const ChildProcess& program) {
  int status = 0;
  return waitpid(program.pid(), &status, WNOHANG) == program.pid() ? std::optional(status)
                                                                   : std::nullopt;
}

std::string abort_reason(const std::vector<std::string>& environment, const RankEnd& end) {
  const std::string_view setting = variable_in(environment, "HORO_FLIGHT_DIR");
  const auto place = observe::flight_location(setting, 0);
  if (setting.empty() || !place) return {};
  try {
    const observe::FlightLog log =
        observe::read_flight((place->directory / observe::flight_file_name(end.rank)).string());
    const bool is_own = log.pid == end.pid && log.state == observe::FlightState::kAborted;
    return is_own ? printable(log.failure) : "";
  } catch (const Error&) {  // the rank has not called init(), or has removed its record
    return {};
  }
}

void report(const ChildProcess& program, const std::vector<std::string>& environment,
            int wait_status, LastLine& last) {
  const auto rank = number_in<int>(environment, "OMPI_COMM_WORLD_RANK");
  if (!rank) return;
  RankEnd end{.rank = *rank,
              .size = number_in<int>(environment, "OMPI_COMM_WORLD_SIZE").value_or(0),
              .pid = program.pid(),
              .wait_status = wait_status};
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  end.host = host;
  if (wait_status != 0) end.abort_reason = abort_reason(environment, end);
  end.last_line = printable(last.text());
  write_all(encode(end));
}

/// Ends this process in the same way as the program, without a second core file.
[[noreturn]] void end_like(int wait_status) {
  if (!WIFSIGNALED(wait_status)) _exit(WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(signal, SIG_DFL);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, signal);
  sigprocmask(SIG_UNBLOCK, &mask, nullptr);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace

int rank_command(std::span<const std::string> words) {
  const bool is_silent = !words.empty() && words[0] == "--silent";
  if (is_silent) words = words.subspan(1);
  if (words.empty() || words[0] == "-h" || words[0] == "--help")
    throw InvalidArgument(
        "hororun starts each rank through 'hororun rank'; do not call it yourself");
  const std::vector<std::string> program_words(words.begin(), words.end());
  const std::vector<std::string> environment = process_environment();
  check_program_format(find_program(words[0], variable_in(environment, "PATH")));
  // The inbox includes SIGUSR1 and SIGUSR2, because mpirun sends them to the whole process group
  // and they must not end this process.
  SignalInbox inbox({SIGCHLD, SIGTERM, SIGINT, SIGHUP, kStopSignal, SIGUSR1, SIGUSR2});
  RankCleaner cleaner(environment);
  const ChildProcess program(program_words, {}, inbox.previous_mask(), ChildProcess::Kind::kRank);
  LastLine last;
  bool is_open = true, is_stopped = false;
  std::optional<int> wait_status;
  while (!wait_status) {
    pollfd events[] = {{inbox.descriptor(), POLLIN, 0},
                       {is_open ? program.error_output() : -1, POLLIN, 0}};
    poll(events, std::size(events), -1);
    if (events[1].revents != 0) is_open = pass_on(program.error_output(), last);
    is_stopped = take_signals(inbox, program, is_stopped);
    wait_status = take_end(program);
  }
  // If a signal to the process group ended the program, the signal has also reached this process.
  is_stopped = take_signals(inbox, program, is_stopped);
  while (is_open && pass_on(program.error_output(), last)) {
  }
  if (*wait_status == 0)
    cleaner.dismiss();
  else
    remove_segment_of_rank(environment);
  if (!is_stopped && !is_silent) report(program, environment, *wait_status, last);
  end_like(*wait_status);
}

}  // namespace horo
