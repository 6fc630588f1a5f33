#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// The numbers of processes that the launchers of this process report in environment variables. A
/// process may have the variables of several launchers if one launcher started another.
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
  /// Returns the error text. Requires is_mpi_mismatch(1). `library` is the MPI in use. `launcher`
  /// is the program that started the process, or empty if that program is unknown.
  std::string describe_mpi_mismatch(std::string_view library, std::string_view launcher) const;
};

/// Reads "NAME=VALUE" entries. Ignores SLURM_ variables, because srun also sets them for programs
/// without MPI.
LaunchEnvironment read_launch_environment(const std::vector<std::string>& environment);

/// Returns the rank that a launcher reports in environment variables, or nullopt if there is none.
/// Needs no MPI.
std::optional<int> launched_rank(const std::vector<std::string>& environment);

/// A job as described by the environment variables that Open MPI's mpirun sets.
struct LaunchedJob {
  /// All ranks of this node have the same id. Ranks of other jobs on the host have other ids. If
  /// Open MPI emulates several nodes on the host, each node has its own id.
  std::string id;
  int rank = 0, size = 1;
  int local_size = 1;  ///< ranks on this node
};
/// Returns nullopt if one of the variables is missing. This is the case without mpirun, and with
/// Open MPI 5, which does not set all of them.
std::optional<LaunchedJob> launched_job(const std::vector<std::string>& environment);

/// Returns a warning if srun started this process as one of several tasks, and an empty text
/// otherwise. Call this function only if no MPI launcher started the process. The result is a
/// warning and not an error, because the user may have intended separate jobs.
std::string warning_of_step_without_mpi(const std::vector<std::string>& environment);

/// Returns the program path of the nearest ancestor process that is an MPI launcher, or an empty
/// text if this function finds none.
std::string launcher_of_this_process();

/// Whether a program of this file name starts the processes of MPI jobs, for example "mpirun",
/// "prterun" or "slurmstepd". Checks only the beginning of the name, so the result is also true for
/// "mpiexec.hydra".
bool is_launcher(std::string_view program);

}  // namespace horo
