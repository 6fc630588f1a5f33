#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "launcher/commands.h"
#include "launcher/host_list.h"
#include "launcher/job/job_verdict.h"
#include "launcher/launch_options.h"
#include "launcher/machine.h"
#include "launcher/mpirun_command.h"
#include "launcher/output_queue.h"
#include "launcher/process.h"
#include "launcher/program_search.h"
#include "launcher/rank/stop_signal.h"
#include "launcher/supervisor.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommands[] = {"settings",   "doctor", "timeline",
                                          "stragglers", "pack",   "run"};

std::vector<Host> read_hosts(const LaunchOptions& options) {
  if (options.hosts) {
    try {
      return parse_host_list(*options.hosts);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("-H {}: {}", *options.hosts, error.what()));
    }
  }
  if (!options.hostfile) return {};
  std::ifstream file(*options.hostfile);
  std::ostringstream text;
  text << file.rdbuf();  // fails if the file is empty
  if (!fs::is_regular_file(*options.hostfile) || !file)
    throw InvalidArgument(
        fmt::format("--hostfile {}: cannot be read; give a file with one \"HOST slots=N\" a line",
                    *options.hostfile));
  return parse_hostfile(text.str(), *options.hostfile);
}

/// Checks the program if all ranks run on this machine. On other machines, mpirun searches for it.
void check_program(const LaunchOptions& options, std::span<const Host> hosts,
                   const Machine& machine) {
  for (const Host& host : hosts)
    if (!is_this_machine(machine, host.name)) return;
  const std::string& program = options.program[0];
  const std::string_view path = variable_in(machine.environment, "PATH");
  const bool names_no_ranks = !options.ranks && hosts.empty();
  if (const auto command = nearest_match(program, kCommands);
      command && names_no_ranks && !find_on_path(program, path) && !fs::exists(program))
    throw InvalidArgument(
        fmt::format("no program or command '{}'; did you mean {}?", program, *command));
  check_program_format(find_program(program, path));
}

/// Throws InvalidArgument if a setting is invalid. Without this check, every rank would report the
/// error.
void check_settings(const LaunchOptions& options, const Machine& machine) {
  std::vector<std::string> entries = machine.environment;
  for (const auto& [name, value] : options.environment) entries.push_back(name + "=" + value);
  parse_environment(entries);
}

void make_output_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && access(path.c_str(), W_OK | X_OK) != 0)
    error.assign(errno, std::generic_category());
  if (error)
    throw InvalidArgument(fmt::format("--output-dir {}: {}; choose a directory that is writable",
                                      path, error.message()));
}

/// Chooses the directory for the flight recorders of the job, so that hororun can read the files
/// after a failure. Returns the value of HORO_FLIGHT_DIR. With --dry-run, the ranks choose the
/// directory, because the printed command may run more than once.
std::string set_flight_directory(LaunchOptions& options, const Machine& machine) {
  constexpr std::string_view kName = "HORO_FLIGHT_DIR";
  std::string setting(variable_in(machine.environment, kName));
  for (const auto& [name, value] : options.environment)
    if (name == kName) setting = value;
  const std::string chosen = flight_setting_for_job(setting);
  if (chosen == setting) return setting;
  // A later entry overrides an earlier entry of the same variable.
  options.environment.emplace_back(kName, options.dry_run ? "auto" : chosen);
  return chosen;
}

/// Raises the limit of open files for mpirun, which has pipes to the ranks on its own host. Throws
/// InvalidArgument if that is impossible.
void check_open_files(const LaunchOptions& options, std::span<const Host> hosts,
                      const Machine& machine) {
  const int ranks = options.ranks.value_or(total_slots(hosts).value_or(1));
  require_open_files(ranks_on_busiest_host(hosts, ranks, machine.cores));
}

/// Makes mpirun start each rank through rank_command() of this program. If mpirun writes the output
/// of the ranks to files or to other windows, or marks its lines, the runners get --silent, because
/// their reports would appear in that output.
std::vector<std::string> with_rank_command(const MpirunCommand& command) {
  constexpr std::string_view kOptions[] = {
      "--output-filename",  "-output-filename",  "--tag-output", "-tag-output",
      "--timestamp-output", "-timestamp-output", "--xterm",      "-xterm"};
  std::vector<std::string> arguments = command.arguments;
  const auto program = arguments.begin() + static_cast<std::ptrdiff_t>(command.program);
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string(), "rank"};
  if (std::find_first_of(arguments.begin(), program, std::begin(kOptions), std::end(kOptions)) !=
      program)
    words.emplace_back("--silent");
  arguments.insert(program, words.begin(), words.end());
  return arguments;
}

/// The variables for mpirun. Those of the user override that for kStopSignal.
std::vector<std::pair<std::string, std::string>> with_stop_signal(const MpirunCommand& command) {
  auto environment = command.environment;
  if (std::getenv(kForwardedSignalsVariable) == nullptr)
    environment.emplace(environment.begin(), kForwardedSignalsVariable, kForwardedSignals);
  return environment;
}

int run_job(const MpirunCommand& command, const std::string& flight_setting,
            const Patience& patience) {
  adopt_orphans();
  // Even if the reader closes standard error, this process must wait for the job.
  std::signal(SIGPIPE, SIG_IGN);
  SignalInbox inbox(supervised_signals());
  const JobVerdict verdict(flight_setting);
  const ChildProcess mpirun(with_rank_command(command), with_stop_signal(command),
                            inbox.previous_mask());
  OutputQueue errors(STDERR_FILENO);
  const JobResult result = supervise(mpirun, inbox, errors, patience);
  const int exit_code = verdict.exit_code(result);
  if (exit_code != 0) errors.add(verdict.text(result, exit_code));
  // After a signal that stopped the job, remaining output may delay the end only for this time.
  constexpr std::chrono::seconds kAfterStop(5);
  write_out(errors, inbox, result.stop ? std::optional(kAfterStop) : std::nullopt);
  return exit_code;
}

}  // namespace

int run_command(std::span<const std::string> words) {
  LaunchOptions options = parse_launch_options(words);
  if (options.help) {
    fmt::print("{}", launch_help());
    return 0;
  }
  require_open_files(1);  // before anything that opens a file
  const Machine machine = inspect_machine();
  const std::string flight_setting = set_flight_directory(options, machine);
  const std::vector<Host> hosts = read_hosts(options);
  check_program(options, hosts, machine);
  const MpirunCommand command = compose_mpirun(options, hosts, machine);
  check_settings(options, machine);
  if (options.dry_run) {
    fmt::print("{}\n", to_shell_line(command));
    return 0;
  }
  check_open_files(options, hosts, machine);
  if (options.output_directory) make_output_directory(*options.output_directory);
  return run_job(command, flight_setting, {.before_stop = options.grace_time});
}

}  // namespace horo
