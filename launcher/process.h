#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace horo {

/// Receives signals through a file descriptor in place of handlers, from construction to
/// destruction. At most one object exists at a time. Constructed before any other thread starts,
/// because threads inherit the mask of blocked signals.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals);
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_; }
  /// Returns the next pending signal; none if no signal is pending.
  std::optional<int> next();
  /// The mask of blocked signals before the construction, for a child process.
  const sigset_t& previous_mask() const { return previous_mask_; }

 private:
  sigset_t previous_mask_{};
  int descriptor_ = -1;
};

/// A child process whose standard error is a pipe to this process.
class ChildProcess {
 public:
  enum class Kind {
    kMpirun,  ///< leads a process group of its own; gets SIGTERM when this process dies
    kRank,    ///< stays in this process's group; gets SIGKILL when this process dies
  };

  /// Starts arguments[0], searched on PATH. The child gets the environment of this process plus
  /// `environment`, and the mask of blocked signals `signal_mask`. Throws Error if it cannot start.
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

/// The exit code that a shell reports: the exit code of the process, or 128 + the signal that
/// killed it.
int shell_exit_code(int wait_status);

/// Returns the children that have ended since the last call, with their wait() statuses.
std::map<pid_t, int> reap_children();

/// Makes this process the new parent of its descendants whose parent dies, in place of init.
void adopt_orphans();
/// Kills every child of this process, and adopted descendants, until none is left. Waits for
/// cleaning processes (RankCleaner), which end by themselves, unless they are stopped.
void kill_all_children();

}  // namespace horo
