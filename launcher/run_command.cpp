#include "launcher/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "launcher/doctor_command.h"
#include "launcher/host_list.h"
#include "launcher/launch_options.h"
#include "launcher/machine.h"
#include "launcher/mpirun_command.h"
#include "launcher/process.h"
#include "launcher/program_search.h"
#include "launcher/supervisor.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

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
  if (!fs::is_regular_file(*options.hostfile) || !(text << file.rdbuf()))
    throw InvalidArgument(
        fmt::format("--hostfile {}: cannot be read; give a file with one \"HOST slots=N\" a line",
                    *options.hostfile));
  return parse_hostfile(text.str(), *options.hostfile);
}

/// On other machines the program is looked for there, by mpirun.
void check_program(const LaunchOptions& options, std::span<const Host> hosts,
                   const Machine& machine) {
  for (const Host& host : hosts)
    if (!is_this_machine(machine, host.name)) return;
  find_program(options.program[0], variable_in(machine.environment, "PATH"));
}

/// Refuses here, once, what every rank would refuse when it starts.
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
    throw InvalidArgument(fmt::format(
        "--output-dir {}: {}; give a directory that can be written to", path, error.message()));
}

std::string exit_code_text(int exit_code) {
  const int signal = exit_code - 128;
  const char* name = signal > 0 ? sigdescr_np(signal) : nullptr;
  return name == nullptr ? std::to_string(exit_code)
                         : fmt::format("{} (signal {}, {})", exit_code, signal, name);
}

void report(const JobResult& result, int exit_code) {
  if (result.stop)
    fmt::print(stderr, "hororun: stopped by signal {} ({})\n", result.stop->signal,
               sigdescr_np(result.stop->signal));
  else if (result.failure)
    fmt::print(stderr, "hororun: {}\n", describe(*result.failure));
  else if (exit_code != 0)
    fmt::print(stderr, "hororun: the job failed with exit code {}; mpirun did not name a rank\n",
               exit_code_text(exit_code));
}

/// Names the directory of the job's flight recorders, so that it is known when the job has failed.
/// A printed command may run more than once: its jobs name their own. Returns the setting.
std::string set_flight_directory(LaunchOptions& options, const Machine& machine) {
  constexpr std::string_view kName = "HORO_FLIGHT_DIR";
  std::string setting(variable_in(machine.environment, kName));
  for (const auto& [name, value] : options.environment)
    if (name == kName) setting = value;
  const std::string chosen = flight_setting_for_job(setting);
  if (chosen == setting) return setting;
  // Of several values of a variable the last one counts.
  options.environment.emplace_back(kName, options.dry_run ? "auto" : chosen);
  return chosen;
}

int run_job(const MpirunCommand& command, const std::string& flight_setting) {
  adopt_orphans();
  SignalInbox inbox(supervised_signals());
  const ChildProcess mpirun(command.arguments, command.environment, inbox.previous_mask());
  const JobResult result = supervise(mpirun, inbox);
  const int exit_code =
      result.stop ? 128 + result.stop->signal : shell_exit_code(result.wait_status);
  report(result, exit_code);
  if (exit_code != 0) explain_failure(flight_setting, result.stop);
  return exit_code;
}

}  // namespace

int run_command(std::span<const std::string> words) {
  LaunchOptions options = parse_launch_options(words);
  if (options.help) {
    fmt::print("{}", launch_help());
    return 0;
  }
  const Machine machine = inspect_machine();
  const std::string flight_setting = set_flight_directory(options, machine);
  const std::vector<Host> hosts = read_hosts(options);
  const MpirunCommand command = compose_mpirun(options, hosts, machine);
  check_settings(options, machine);
  check_program(options, hosts, machine);
  if (options.dry_run) {
    fmt::print("{}\n", to_shell_line(command));
    return 0;
  }
  if (options.output_directory) make_output_directory(*options.output_directory);
  return run_job(command, flight_setting);
}

}  // namespace horo
