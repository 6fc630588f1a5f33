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

/// Identifies a process. The start time distinguishes the process from a later one with the same
/// id.
struct ProcessId {
  pid_t pid = -1;
  std::uint64_t start_time = 0;

  bool operator==(const ProcessId&) const = default;
};

/// Returns the running process with this id, or nullopt if there is no such process or all its
/// threads have ended.
std::optional<ProcessId> running_process(pid_t pid);

/// Returns the children of a process. A child may be missing from the list if another child ends
/// during the call. Empty if the kernel has no /proc/PID/task/TID/children.
std::vector<pid_t> children_of(pid_t pid);

/// Returns the "NAME=VALUE" entries of the environment with which the process started its program.
/// Empty if the entries cannot be read.
std::vector<std::string> environment_of(pid_t pid);

/// Whether the process has a thread of this name.
bool has_thread(pid_t pid, std::string_view name);

/// A job of Open MPI, according to the environment of its ranks.
struct MpiJob {
  unsigned id = 0;     ///< PMIX_NAMESPACE
  int size = 0;        ///< number of ranks, 0 if unknown
  int nodes = 0;       ///< number of hosts that may run ranks, 0 if unknown
  int local_size = 0;  ///< number of ranks on this host, 0 if unknown
  std::set<std::filesystem::path> session_directories;  ///< session directories on this host
};

/// The ranks, on this machine, of a job that this process has started. A rank is a descendant of
/// this process that has the environment of a rank. In a job of hororun, these processes are the
/// runners (rank_command()). The caller must call adopt_orphans() before, so that ranks stay
/// descendants if mpirun dies. Must be used by one thread.
class RankProcesses {
 public:
  /// Searches for new ranks among the descendants of this process. Does not search the descendants
  /// of a rank.
  void update();

  /// The job of the first rank that was found, or nullopt if no rank was found.
  const std::optional<MpiJob>& job() const { return job_; }
  /// Whether any rank that was found runs, including ranks of jobs that the ranks spawned.
  bool any_runs() const;
  /// Whether all ranks of the job are known to run, or to have run, on this machine: from the
  /// environment of a rank, or because all ranks were found.
  bool all_are_here() const;
  /// Whether every rank that must run on this machine was found.
  bool all_are_found() const;
  /// The ranks of the job that were found but do not run any more, with their process ids.
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
