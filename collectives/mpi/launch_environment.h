#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::collectives {

/// The number of processes that launchers started together, according to their environment
/// variables. A process may have the variables of several launchers if one launcher started
/// another.
struct LaunchEnvironment {
  struct WorldSize {
    std::string variable;  ///< for example "PMI_SIZE"
    int size = 0;
  };
  std::vector<WorldSize> sizes;

  /// Whether MPI has a world of one process although at least one launcher reports a size and every
  /// reported size is above one. This happens if a program was built for another MPI than that of
  /// its launcher. A reported size of one is not a mismatch, because a launcher may start a single
  /// process inside a job of several.
  bool is_mpi_mismatch(int world_size) const;
  /// Returns the error text. `library` is the MPI in use. `launcher` is the program that started
  /// the process, or empty if that program is unknown.
  std::string describe_mpi_mismatch(std::string_view library, std::string_view launcher) const;
};

/// Reads "NAME=VALUE" entries. Ignores the variables of Slurm, because every process of a step has
/// them, with or without MPI.
LaunchEnvironment read_launch_environment(const std::vector<std::string>& environment);

/// Returns the rank that a launcher assigned to this process, if any. Works before MPI is
/// initialised.
std::optional<int> launched_rank(const std::vector<std::string>& environment);

/// A job as described by the environment variables that Open MPI's mpirun sets.
struct LaunchedJob {
  /// Equal on all ranks of this node. Other jobs on the host have other ids, and so have other
  /// nodes that Open MPI emulates on the host.
  std::string id;
  int rank = 0, size = 1;
  int local_size = 1;  ///< ranks on this node
};
/// Returns nullopt if Open MPI's mpirun did not start this process.
std::optional<LaunchedJob> launched_job(const std::vector<std::string>& environment);

/// Returns a warning if srun started this process as one of several tasks, and an empty text
/// otherwise. Call this function only for a process without an MPI launcher. Such tasks are not an
/// error, because the user may have intended separate jobs.
std::string warning_of_step_without_mpi(const std::vector<std::string>& environment);

/// Returns the program path of the nearest ancestor process that is an MPI launcher, or an empty
/// text if there is no such process.
std::string launcher_of_this_process();

/// Whether a program of this name starts MPI jobs: "mpirun", "mpiexec.hydra", "hydra_pmi_proxy",
/// "orted", "srun", ...
bool is_launcher(std::string_view program);

}  // namespace horo::collectives
