#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "horo/base/error.h"

namespace horo {
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

/// The child's side of the fork: does not return. Writes errno into `failure` if it cannot become
/// the program.
[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         const sigset_t& signal_mask, ChildProcess::Kind kind, pid_t parent,
                         int error_output, int failure) {
  const bool is_mpirun = kind == ChildProcess::Kind::kMpirun;
  if (is_mpirun) setpgid(0, 0);
  // mpirun has a handler of its own while the job runs. A rank that ends while mpirun starts or
  // shuts down would kill it by this signal, before mpirun reports anything. mpirun resets the
  // signal for the ranks.
  if (is_mpirun) std::signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, is_mpirun ? SIGTERM : SIGKILL);
  if (getppid() != parent) _exit(128 + SIGTERM);  // it died before the line above
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

/// Processes whose parent is this one.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // "PID (NAME) STATE PARENT ..."; the name may hold blanks and parentheses.
    const std::size_t end_of_name = text.rfind(") ");
    if (end_of_name == std::string::npos || end_of_name + 4 > text.size()) continue;
    if (std::atoi(text.c_str() + end_of_name + 4) == getpid()) found.push_back(pid);
  }
  return found;
}

}  // namespace

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
  // End of file comes when the child has become the program: the pipe closes on exec.
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

std::map<pid_t, int> reap_children() {
  std::map<pid_t, int> ended;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG))
    ended[pid] = status;
  return ended;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_all_children() {
  for (auto pids = children(); !pids.empty(); pids = children()) {
    for (pid_t pid : pids) kill(pid, SIGKILL);
    for (pid_t pid : pids) waitpid(pid, nullptr, 0);
  }
}

}  // namespace horo
