#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/error.h"
#include "launcher/rank/rank_cleaner.h"

namespace horo {

// Blocked signals stay pending until read() takes them from the descriptor, so a signal between two
// calls of next() is not lost.
SignalInbox::SignalInbox(const std::vector<int>& signals) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : signals) sigaddset(&mask, signal);
  descriptor_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw Error(std::string("signalfd: ") + std::strerror(errno));
  sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
}

SignalInbox::~SignalInbox() {
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
  close(descriptor_);
}

std::optional<int> SignalInbox::next() {
  signalfd_siginfo info{};
  if (read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("pipe: {}", std::strerror(errno)));
    read_end = ends[0];
    write_end = ends[1];
  }
};

/// Runs in the child after fork() and does not return. Writes errno to `failure` if exec() fails.
[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         const sigset_t& signal_mask, ChildProcess::Kind kind, pid_t parent,
                         int error_output, int failure) {
  const bool is_mpirun = kind == ChildProcess::Kind::kMpirun;
  if (is_mpirun) setpgid(0, 0);
  // mpirun handles SIGPIPE itself while the job runs, but not while it starts or shuts down.
  // Without SIG_IGN, a rank that ends during these times could kill mpirun by SIGPIPE before mpirun
  // reports anything. mpirun resets the signal for the ranks.
  if (is_mpirun) std::signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, is_mpirun ? SIGTERM : SIGKILL);
  if (getppid() != parent) _exit(128 + SIGTERM);  // the parent died before prctl()
  dup2(error_output, STDERR_FILENO);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  if (write(failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

struct Child {
  pid_t pid = 0;
  bool cleans_up = false;  // the process of a RankCleaner, which ends by itself
};

// Returns the children of this process, except for cleaning processes that are stopped. A stopped
// cleaning process ends by itself after it is continued.
std::vector<Child> children() {
  std::vector<Child> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // "PID (NAME) STATE PARENT ..."; the name may contain blanks and parentheses.
    const std::size_t end_of_name = text.rfind(") ");
    if (end_of_name == std::string::npos || end_of_name + 4 > text.size()) continue;
    if (std::atoi(text.c_str() + end_of_name + 4) != getpid()) continue;
    const bool is_stopped = text[end_of_name + 2] == 'T';
    const bool cleans_up =
        std::string_view(text).substr(0, end_of_name).ends_with(kRankCleanerName);
    if (!cleans_up || !is_stopped) found.push_back({pid, cleans_up});
  }
  return found;
}

}  // namespace

// Makes two pipes. `errors` is the standard error of the child. `failure` reports a failed exec().
// Both are O_CLOEXEC, and the child duplicates the write end of `errors` to descriptor 2.
ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::pair<std::string, std::string>>& environment,
                           const sigset_t& signal_mask, Kind kind) {
  const Pipe errors;
  const Pipe failure;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error(fmt::format("fork: {}", std::strerror(errno)));
  if (pid_ == 0)
    become(arguments, environment, signal_mask, kind, parent, errors.write_end, failure.write_end);
  close(errors.write_end);
  close(failure.write_end);
  error_output_ = errors.read_end;
  fcntl(error_output_, F_SETFL, O_NONBLOCK);
  // exec() closes the pipe, so the end of the file means that exec() has succeeded.
  int error = 0;
  ssize_t count = 0;
  do count = read(failure.read_end, &error, sizeof(error));
  while (count < 0 && errno == EINTR);
  close(failure.read_end);
  if (count == sizeof(error)) {
    waitpid(pid_, nullptr, 0);
    close(error_output_);
    throw Error(fmt::format("cannot start {}: {}{}", arguments[0], std::strerror(error),
                            error == ENOENT && kind == Kind::kMpirun
                                ? "; install Open MPI, or put its bin directory on PATH"
                                : ""));
  }
}

ChildProcess::~ChildProcess() { close(error_output_); }

void ChildProcess::send(int signal) const { kill(pid_, signal); }
void ChildProcess::send_to_group(int signal) const { kill(-pid_, signal); }

std::string describe_signal(int signal) {
  const char* name = sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, name == nullptr ? "?" : name);
}

int shell_exit_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// One SIGCHLD may stand for several children, so all children that have ended are reaped.
std::map<pid_t, int> reap_children() {
  std::map<pid_t, int> ended;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG))
    ended[pid] = status;
  return ended;
}

// If mpirun dies, its children become children of this process, so kill_all_children() finds the
// ranks.
void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

// Repeats until there is no child, because the children of a killed child become children of this
// process.
void kill_all_children() {
  for (auto left = children(); !left.empty(); left = children()) {
    // A cleaning process may wait for the end of another child. The other children are therefore
    // killed and reaped first.
    const bool only_clean_up = std::ranges::all_of(left, &Child::cleans_up);
    std::erase_if(left, [&](const Child& child) { return child.cleans_up != only_clean_up; });
    for (const Child& child : left)
      if (!only_clean_up) kill(child.pid, SIGKILL);
    // WUNTRACED: waitpid() also returns if the cleaning process is stopped.
    for (const Child& child : left) waitpid(child.pid, nullptr, only_clean_up ? WUNTRACED : 0);
  }
}

}  // namespace horo
