#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace horo {

/// Blocks signals and receives them through a file descriptor, from its construction to its
/// destruction. At most one object may exist at a time. It must be constructed before any other
/// thread starts, because threads inherit the mask of blocked signals.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals);
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_; }
  /// Returns the next pending signal, or none if no signal is pending. Does not block.
  std::optional<int> next();
  /// The mask of blocked signals before the construction, for child processes.
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

  /// Starts the program arguments[0]. If this name has no slash, the program is searched on PATH.
  /// The child gets the environment of this process plus `environment`, and `signal_mask` as its
  /// mask of blocked signals. Throws Error if the program cannot be started. The destructor neither
  /// ends the child nor waits for it.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::pair<std::string, std::string>>& environment,
               const sigset_t& signal_mask, Kind kind = Kind::kMpirun);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// The non-blocking read end of the child's standard error. This object owns it.
  int error_output() const { return error_output_; }

  void send(int signal) const;
  void send_to_group(int signal) const;

 private:
  pid_t pid_ = -1;
  int error_output_ = -1;
};

/// Returns a text such as "signal 9 (Killed)".
std::string describe_signal(int signal);

/// The exit code that a shell reports. This is the exit code of the process, or 128 + n if signal n
/// killed the process.
int shell_exit_code(int wait_status);

/// Returns the children that have ended since the last call, with their wait() statuses.
std::map<pid_t, int> reap_children();

/// From this call on, if the parent of a descendant of this process dies, this process becomes the
/// new parent of that descendant, instead of init.
void adopt_orphans();
/// Kills and reaps the children of this process, including adopted descendants, until none is left.
/// Does not kill cleaning processes (RankCleaner), because they end by themselves, but waits until
/// they have ended or are stopped.
void kill_all_children();

}  // namespace horo
