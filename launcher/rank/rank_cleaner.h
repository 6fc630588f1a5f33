#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace horo {

/// The name of a cleaning process in /proc. A cleaning process ends by itself. Code that kills the
/// processes of a job must not kill cleaning processes.
inline constexpr const char* kRankCleanerName = "hororun-clean";

/// Cleans up after one rank. Every runner (rank_command()) has a RankCleaner. It is needed on hosts
/// where hororun itself does not run: if the daemon of Open MPI loses the connection to mpirun, the
/// daemon kills the process group of each rank, including the runner. The daemon may then wait for
/// the connection for many minutes. A child process with a process group of its own, the cleaning
/// process, therefore does the following if the runner is killed or the rank failed:
///
///   - It removes the rank's shared-memory segment.
///   - If the runner is a child of such a daemon, and the daemon then has no child for 8 s but does
///     not end, the cleaning process ends the daemon, first with SIGTERM and later with SIGKILL.
///
/// The cleaning process sleeps while the rank runs, and keeps only its end of a pipe open. A
/// RankCleaner must be constructed by a process with one thread, before the process of the rank
/// starts.
class RankCleaner {
 public:
  /// `environment` is the environment of the rank; see remove_segment_of_rank(). If the process or
  /// the pipe cannot be created, nothing is cleaned up.
  explicit RankCleaner(const std::vector<std::string>& environment,
                       const std::filesystem::path& shared_memory = "/dev/shm");
  /// Makes the cleaning process clean up, unless dismiss() was called. Does not wait.
  ~RankCleaner();
  RankCleaner(const RankCleaner&) = delete;
  RankCleaner& operator=(const RankCleaner&) = delete;

  /// Ends the cleaning process and waits for its end. The caller must call dismiss() if the rank
  /// has succeeded.
  void dismiss();

 private:
  pid_t pid_ = -1;
  int alive_ = -1;  // write end of a pipe, which the kernel closes if this process is killed
};

}  // namespace horo
