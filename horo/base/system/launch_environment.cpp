#include "horo/base/system/launch_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "horo/base/hash.h"

namespace horo {
namespace {

// Returns the parent of a process, or 0 if the parent cannot be determined.
pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // Format: "pid (name) state parent". The name may contain any characters, including parentheses.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

std::optional<std::string_view> text_in(const std::vector<std::string>& environment,
                                        std::string_view variable) {
  for (const std::string_view entry : environment)
    if (entry.starts_with(variable) && entry.substr(variable.size(), 1) == "=")
      return entry.substr(variable.size() + 1);
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const std::vector<std::string>& environment,
                                      std::string_view variable) {
  const auto text = text_in(environment, variable);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [rest, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (status == std::errc() && rest == text->data() + text->size()) return value;
  return std::nullopt;
}

}  // namespace

bool LaunchEnvironment::is_mpi_mismatch(int world_size) const {
  return world_size == 1 && !sizes.empty() &&
         std::ranges::all_of(sizes, [](const WorldSize& reported) { return reported.size > 1; });
}

std::string LaunchEnvironment::describe_mpi_mismatch(std::string_view library,
                                                     std::string_view launcher) const {
  std::vector<std::string> variables;
  for (const WorldSize& reported : sizes)
    variables.push_back(fmt::format("{}={}", reported.variable, reported.size));
  return fmt::format(
      "this process was started as one of {} ({}{}), but its MPI library reports 1 process: {}. "
      "The program was probably built for another MPI than the launcher's: start it with the "
      "mpirun of that library, or build it with the launcher's. To run it alone on purpose, unset "
      "{}",
      sizes.front().size, fmt::join(variables, ", "),
      launcher.empty() ? std::string() : fmt::format(", by {}", launcher), library,
      sizes.front().variable);
}

LaunchEnvironment read_launch_environment(const std::vector<std::string>& environment) {
  LaunchEnvironment result;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const auto size = number_in(environment, variable); size.value_or(0) > 0)
      result.sizes.push_back({variable, static_cast<int>(*size)});
  return result;
}

std::optional<int> launched_rank(const std::vector<std::string>& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"})
    if (const auto rank = number_in(environment, variable); rank.value_or(-1) >= 0)
      return static_cast<int>(*rank);
  return std::nullopt;
}

std::optional<LaunchedJob> launched_job(const std::vector<std::string>& environment) {
  // Two jobs on a host may have the same PMIX_NAMESPACE. The port in the URI of mpirun
  // distinguishes them. If Open MPI emulates several nodes on one host, the URI of the daemon
  // distinguishes the nodes.
  const auto number = text_in(environment, "PMIX_NAMESPACE");
  const auto mpirun = text_in(environment, "OMPI_MCA_orte_hnp_uri");
  const auto daemon = text_in(environment, "OMPI_MCA_orte_local_daemon_uri");
  const auto rank = number_in(environment, "OMPI_COMM_WORLD_RANK");
  const auto size = number_in(environment, "OMPI_COMM_WORLD_SIZE");
  const auto local_size = number_in(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!number || !mpirun || !rank || !size || !local_size) return std::nullopt;
  const Hash id = Hash().add(*number).add(*mpirun).add(daemon.value_or(""));
  return LaunchedJob{fmt::format("{:016x}", id.value()), static_cast<int>(*rank),
                     static_cast<int>(*size), static_cast<int>(*local_size)};
}

std::string warning_of_step_without_mpi(const std::vector<std::string>& environment) {
  // Slurm reserves the step ids from this value on, for example for batch scripts and interactive
  // shells.
  constexpr std::int64_t kLastStep = 0xfffffff0;
  const auto tasks = number_in(environment, "SLURM_STEP_NUM_TASKS");
  const auto step = number_in(environment, "SLURM_STEP_ID");
  if (!tasks || *tasks < 2 || !step || *step >= kLastStep) return {};
  return fmt::format(
      "srun started {} tasks without MPI: each of them is rank 0 of a job of 1. If they are to be "
      "one job, start them with srun --mpi=pmix (srun --mpi=list lists the supported types) or "
      "with "
      "mpirun",
      *tasks);
}

bool is_launcher(std::string_view program) {
  constexpr std::string_view kBeginnings[] = {"mpirun",  "mpiexec", "hydra", "orterun",   "orted",
                                              "prterun", "prted",   "srun",  "slurmstepd"};
  return std::ranges::any_of(
      kBeginnings, [&](std::string_view beginning) { return program.starts_with(beginning); });
}

std::string launcher_of_this_process() {
  for (pid_t process = getppid(); process > 1; process = parent_of(process)) {
    std::error_code error;
    const auto path = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), error);
    if (!error && is_launcher(path.filename().string())) return path.string();
  }
  return {};
}

}  // namespace horo
