#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/proc_status.h"

namespace horo {

/// A job of Open MPI, as the environment of its ranks names it.
struct MpiJob {
  unsigned id = 0;                                      ///< PMIX_NAMESPACE
  int size = 0;                                         ///< ranks
  int nodes = 0;                                        ///< hosts that may run ranks; 0: unknown
  int local_size = 0;                                   ///< ranks on this host; 0: unknown
  std::set<std::filesystem::path> session_directories;  ///< of mpirun and the daemons seen here
};

/// The ranks of the job that this process started, as far as they run on this machine: descendants
/// of this process, which must adopt orphans (adopt_orphans()), that mpirun started with a rank's
/// environment. In a job of hororun these are the ranks' runners (rank_command()).
class RankProcesses {
 public:
  /// Looks for new ranks. Reads only the descendants of this process that are not below a rank.
  void update();

  /// The job of the first rank that was seen.
  const std::optional<MpiJob>& job() const { return job_; }
  /// Whether any process of a rank runs, those of jobs that the ranks spawned included.
  bool any_runs() const;
  /// Whether every rank was seen on this machine, or all ranks must be here.
  bool all_are_here() const;
  /// Whether every rank that must be on this machine was seen.
  bool all_are_found() const;
  /// The ranks of the job that were seen, and do not run any more, with their process ids.
  std::map<int, pid_t> ended() const;
  /// The ranks of the job that wait in horo::init() now.
  std::vector<int> in_init() const;

 private:
  void visit(const ProcessId& process);
  bool add_if_rank(const ProcessId& process);

  std::optional<MpiJob> job_;
  std::map<int, std::vector<ProcessId>> ranks_;  ///< of job_; the first process first
  std::vector<ProcessId> others_;                ///< ranks of jobs that ranks spawned
  std::vector<ProcessId> known_;                 ///< those of both
};

}  // namespace horo
