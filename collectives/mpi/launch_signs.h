#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::collectives {

/// What the variables of launchers say of how many processes were started together. A process may
/// carry the variables of several launchers, where one has started the other.
struct LaunchSigns {
  struct Sign {
    std::string variable;  ///< "PMI_SIZE"
    int size = 0;
  };
  std::vector<Sign> sizes;

  /// Whether MPI's world of `world_size` is one process while every launcher speaks of several:
  /// that is how a program looks that was built for another MPI than its launcher's. (A launcher
  /// that speaks of one process, inside a job of several, is right.)
  bool is_alone_by_mistake(int world_size) const;
  /// The error's text. `library`: the MPI in use; `launcher`: what started the process, may be
  /// empty.
  std::string describe_mistake(std::string_view library, std::string_view launcher) const;
};

/// Reads "NAME=VALUE" entries. Slurm's variables do not count: every process of a step carries
/// them, MPI or not.
LaunchSigns read_launch_signs(const std::vector<std::string>& environment);

/// The rank that a launcher has given this process, which MPI has not told yet; none if it is not
/// said.
std::optional<int> launched_rank(const std::vector<std::string>& environment);

/// A job as the mpirun of Open MPI describes it to a rank's process.
struct LaunchedJob {
  std::string id;  ///< the same on all ranks of this host; no other job that runs there has it
  int rank = 0, size = 1;
  int local_size = 1;  ///< ranks on this host
};
/// None for a process that something else has started.
std::optional<LaunchedJob> launched_job(const std::vector<std::string>& environment);

/// For a process that no MPI launcher has started: a line to warn with if srun started it as one of
/// several tasks, which may be meant (each task a job of its own) or not; else empty.
std::string warning_of_step_without_mpi(const std::vector<std::string>& environment);

/// The program among this process's ancestors that looks like a launcher of MPI jobs, nearest
/// first, by its path; empty if there is none.
std::string launcher_of_this_process();

/// Whether a program of this name starts MPI jobs: "mpirun", "mpiexec.hydra", "hydra_pmi_proxy",
/// "orted", "srun", ...
bool is_launcher(std::string_view program);

}  // namespace horo::collectives
