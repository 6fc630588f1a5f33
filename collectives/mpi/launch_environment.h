#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::collectives {

/// The number of processes that launchers started together, according to their environment
/// variables. A process may have the variables of several launchers if one started the other.
struct LaunchEnvironment {
  struct WorldSize {
    std::string variable;  ///< "PMI_SIZE"
    int size = 0;
  };
  std::vector<WorldSize> sizes;

  /// Whether MPI has a world of one process although every launcher reports several. This happens
  /// if a program was built for another MPI than that of its launcher. A launcher that reports one
  /// process, inside a job of several, is correct.
  bool is_mpi_mismatch(int world_size) const;
  /// Returns the error text. `library` is the MPI in use, `launcher` the program that started the
  /// process; it may be empty.
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
  std::string id;  ///< equal on all ranks of this host, unique among the jobs there
  int rank = 0, size = 1;
  int local_size = 1;  ///< ranks on this host
};
/// Returns nullopt if mpirun did not start this process.
std::optional<LaunchedJob> launched_job(const std::vector<std::string>& environment);

/// For a process without an MPI launcher: returns a warning if srun started it as one of several
/// tasks. The user may have intended separate jobs or one job. Else returns an empty text.
std::string warning_of_step_without_mpi(const std::vector<std::string>& environment);

/// Returns the path of the nearest ancestor process whose program is an MPI launcher; empty if
/// there is none.
std::string launcher_of_this_process();

/// Whether a program of this name starts MPI jobs: "mpirun", "mpiexec.hydra", "hydra_pmi_proxy",
/// "orted", "srun", ...
bool is_launcher(std::string_view program);

}  // namespace horo::collectives
