#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// Identifies a process. The start time distinguishes it from a later process with the same id.
struct ProcessId {
  pid_t pid = -1;
  std::uint64_t start_time = 0;

  bool operator==(const ProcessId&) const = default;
};

/// The running process with this id; none if it does not exist or is a zombie.
std::optional<ProcessId> running_process(pid_t pid);

/// The children of a process. May miss a child while another one ends. Empty if the kernel has no
/// /proc/PID/task/TID/children.
std::vector<pid_t> children_of(pid_t pid);

/// The "NAME=VALUE" entries of the environment with which the process started; empty if they cannot
/// be read.
std::vector<std::string> environment_of(pid_t pid);

/// Whether the process has a thread of this name.
bool has_thread(pid_t pid, std::string_view name);

/// A job of Open MPI, according to the environment of its ranks.
struct MpiJob {
  unsigned id = 0;                                      ///< PMIX_NAMESPACE
  int size = 0;                                         ///< ranks
  int nodes = 0;                                        ///< hosts that may run ranks; 0: unknown
  int local_size = 0;                                   ///< ranks on this host; 0: unknown
  std::set<std::filesystem::path> session_directories;  ///< of mpirun and the daemons seen here
};

/// The ranks of the job of this process that run on this machine. They are the descendants of this
/// process that have the environment of a rank; in a job of hororun, the runners (rank_command()).
/// Requires adopt_orphans(), so that ranks stay descendants when mpirun dies. Used by one thread.
class RankProcesses {
 public:
  /// Searches for new ranks. Reads the descendants of this process, but not those of a rank.
  void update();

  /// The job of the first rank that was found.
  const std::optional<MpiJob>& job() const { return job_; }
  /// Whether any process of a rank runs, including ranks of jobs that the ranks spawned.
  bool any_runs() const;
  /// Whether all ranks of the job run on this machine, according to the environment or because all
  /// of them were found.
  bool all_are_here() const;
  /// Whether every rank that must run on this machine was found.
  bool all_are_found() const;
  /// The ranks of the job that were found and do not run any more, with their process ids.
  std::map<int, pid_t> ended() const;
  /// The ranks of the job that wait in horo::init() now.
  std::vector<int> in_init() const;

 private:
  void visit(const ProcessId& process);
  bool add_if_rank(const ProcessId& process);

  std::optional<MpiJob> job_;
  std::map<int, std::vector<ProcessId>>
      ranks_;  ///< of job_; the processes of a rank in the order of their discovery
  std::vector<ProcessId> others_;  ///< ranks of jobs that the ranks spawned
  std::vector<ProcessId> known_;   ///< all processes of ranks_ and others_
};

}  // namespace horo
