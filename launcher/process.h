#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace horo {

/// A child process that writes its standard error into a pipe.
class ChildProcess {
 public:
  enum class Kind {
    kMpirun,  ///< leads a process group of its own; gets SIGTERM when this process dies
    kRank,    ///< stays in this process's group; gets SIGKILL when this process dies
  };

  /// Starts arguments[0], searched on PATH, with `environment` added to this process's and
  /// `signal_mask` as its mask of blocked signals. Throws Error if it cannot be started.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::pair<std::string, std::string>>& environment,
               const sigset_t& signal_mask, Kind kind = Kind::kMpirun);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// The non-blocking read end of its standard error.
  int error_output() const { return error_output_; }

  void send(int signal) const;
  void send_to_group(int signal) const;

 private:
  pid_t pid_ = -1;
  int error_output_ = -1;
};

/// "signal 9 (Killed)".
std::string describe_signal(int signal);

/// An exit status as shells give it: the exit code, or 128 + the signal that killed the process.
int shell_exit_code(int wait_status);

/// Children that have ended since the last call, with their wait() status.
std::map<pid_t, int> reap_children();

/// From now on, processes whose parent dies become children of this one in place of init's.
void adopt_orphans();
/// Kills every child of this process, and theirs as they are adopted, until none is left.
void kill_all_children();

}  // namespace horo
