#include "launcher/rank/rank_cleaner.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "launcher/job/job_leftovers.h"
#include "launcher/rank_processes.h"

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLookInterval = 100ms;
constexpr auto kIdleTime = 8s;  // mpirun ends a daemon that it can reach sooner
constexpr auto kTimeToEnd = 5s;

// Returns the daemon of Open MPI, if it is the parent of this process. Returns nullopt if the
// kernel does not list the children of processes, because the cleaning process then could not
// detect that other ranks of the daemon still run.
std::optional<ProcessId> find_daemon() {
  const pid_t parent = getppid();
  std::ifstream file("/proc/" + std::to_string(parent) + "/comm");
  std::string name;
  std::getline(file, name);
  const std::vector<pid_t> children = children_of(parent);
  if (name != "orted" || std::ranges::find(children, getpid()) == children.end())
    return std::nullopt;
  return running_process(parent);
}

// Returns true after the daemon has had no child for `idle_time`, and false when the daemon has
// ended.
bool wait_while(const ProcessId& daemon, std::chrono::seconds idle_time) {
  for (Clock::time_point busy = Clock::now(); Clock::now() - busy < idle_time;) {
    std::this_thread::sleep_for(kLookInterval);
    if (running_process(daemon.pid) != daemon) return false;
    if (!children_of(daemon.pid).empty()) busy = Clock::now();
  }
  return true;
}

// A daemon (orted) that has lost the connection to mpirun waits for up to 15 minutes. The daemon is
// ended only after it has had no child for kIdleTime, because its other ranks may still run.
void end_daemon(const ProcessId& daemon) {
  for (const auto& [signal, time] : {std::pair(SIGTERM, kIdleTime), {SIGKILL, kTimeToEnd}}) {
    if (!wait_while(daemon, time)) return;
    kill(daemon.pid, signal);
  }
}

// Redirects the standard streams to /dev/null and closes all other files except `descriptor`, which
// becomes descriptor 3. mpirun waits until no process holds the output pipes of a rank.
void release_files_but(int descriptor) {
  const int null = open("/dev/null", O_RDWR);
  for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) dup2(null, standard);
  constexpr int kKept = STDERR_FILENO + 1;
  if (descriptor != kKept) dup2(descriptor, kKept);
  close_range(kKept + 1, ~0U, 0);
}

// read() returns one byte if the rank has succeeded (dismiss()). It returns the end of the file if
// the runner has closed the other end of the pipe or has died, for whatever reason. Signals are
// blocked, because a signal to the job must not end the cleaning process.
[[noreturn]] void run_cleaner(int descriptor, const std::vector<std::string>& environment,
                              const std::filesystem::path& shared_memory,
                              const std::optional<ProcessId>& daemon) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_NAME, kRankCleanerName);
  release_files_but(descriptor);
  char byte = 0;
  ssize_t count = 0;
  do count = read(STDERR_FILENO + 1, &byte, 1);
  while (count < 0 && errno == EINTR);
  if (count != 0) _exit(0);
  remove_segment_of_rank(environment, shared_memory);
  if (daemon) end_daemon(*daemon);
  _exit(0);
}

}  // namespace

// The child does not call exec(). This is safe, because this process has one thread. The pipe is
// O_CLOEXEC, so the rank's program does not inherit the write end and cannot keep it open.
RankCleaner::RankCleaner(const std::vector<std::string>& environment,
                         const std::filesystem::path& shared_memory) {
  const std::optional<ProcessId> daemon = find_daemon();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    run_cleaner(ends[0], environment, shared_memory, daemon);
  }
  // This process sets the process group, so that the group is in effect before the rank starts.
  if (pid_ > 0) setpgid(pid_, pid_);
  close(ends[0]);
  alive_ = ends[1];
}

RankCleaner::~RankCleaner() {
  if (alive_ >= 0) close(alive_);
}

void RankCleaner::dismiss() {
  const char byte = 1;
  if (alive_ >= 0 && write(alive_, &byte, 1) == 1 && pid_ > 0) waitpid(pid_, nullptr, 0);
}

}  // namespace horo
