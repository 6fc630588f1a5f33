#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace horo {

/// The name of a cleaning process in /proc. It ends by itself, so code that kills the processes of
/// a job must leave it alone.
inline constexpr const char* kRankCleanerName = "hororun-clean";

/// Cleans up after one rank on a host where hororun itself does not run. When the daemon of Open
/// MPI loses the connection to mpirun, it kills the process group of each rank, including this
/// process. It may then wait for the connection for many minutes. A child process in its own
/// process group therefore does the work:
///
///   - If this process is killed, or if the rank failed, it removes the rank's shared-memory
///     segment.
///   - If the daemon then has no child for 8 s and has not ended, it ends the daemon, first by
///     SIGTERM.
///
/// The child sleeps while the rank runs, and keeps no file of this process open. Constructed by a
/// process with a single thread, before the process of the rank starts.
class RankCleaner {
 public:
  /// `environment` is the environment of the rank, see remove_segment_of_rank(). If no process or
  /// pipe can be created, nothing is cleaned up.
  explicit RankCleaner(const std::vector<std::string>& environment,
                       const std::filesystem::path& shared_memory = "/dev/shm");
  /// The child process cleans up, unless dismiss() was called.
  ~RankCleaner();
  RankCleaner(const RankCleaner&) = delete;
  RankCleaner& operator=(const RankCleaner&) = delete;

  /// Ends the child process, after the rank has succeeded.
  void dismiss();

 private:
  pid_t pid_ = -1;
  int alive_ = -1;  // write end of a pipe: closed without a byte when this process is killed
};

}  // namespace horo
