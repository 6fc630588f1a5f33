#include "launcher/mpirun_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo {

namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quote(std::string_view word) {
  bool plain = !word.empty();
  for (char c : word) plain = plain && is_plain(c);
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string shell_join(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (escapes) {
      // Inside double quotes, a backslash is special only before one of these characters.
      if (quote == '"' && std::string_view("\"\\$`").find(text[i + 1]) == std::string_view::npos)
        word += c;
      word += text[++i];
      in_word = true;
    } else if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != '\0')
    throw InvalidArgument(fmt::format("the quote {} is not closed in: {}", quote, text));
  if (in_word) words.push_back(std::move(word));
  return words;
}

namespace {

constexpr int kMaxRanksPerCore = 256;
// The prefix of variables that set parameters of Open MPI. mpirun forwards them to the ranks.
constexpr std::string_view kParameterPrefix = "OMPI_MCA_";
// The parameter with the signals on which Open MPI prints the stack. The signal handler of Open MPI
// may deadlock after a crash, and horo reports crashes itself.
constexpr const char* kCrashParameter = "opal_signal";
// The parameter with the kinds of shared memory that Open MPI may use. By default, each process
// tests the kind "posix", even though "mmap" has precedence. A process that is killed during that
// test leaves the file /dev/shm/open_mpi.0000.
constexpr const char* kSharedMemoryParameter = "shmem";

bool are_all_local(std::span<const Host> hosts, const Machine& machine) {
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return is_this_machine(machine, host.name); });
}

/// Returns `slots` as the number of ranks of a job without -np. Throws InvalidArgument if there are
/// so many slots that the user probably did not intend this.
int checked_slots(int slots, std::span<const Host> hosts, const Machine& machine) {
  const bool is_too_many = slots > kMaxRanks || (are_all_local(hosts, machine) &&
                                                 slots > kMaxRanksPerCore * machine.cores);
  if (is_too_many)
    throw InvalidArgument(
        fmt::format("the hosts have {} slots, which is more than {} ranks in all or {} per core of "
                    "this machine; give -np N",
                    slots, kMaxRanks, kMaxRanksPerCore));
  return slots;
}

int rank_count(const LaunchOptions& options, std::span<const Host> hosts, const Machine& machine) {
  const auto slots = hosts.empty() ? std::nullopt : total_slots(hosts);
  if (!options.ranks) {
    if (slots) return checked_slots(*slots, hosts, machine);
    if (hosts.empty())
      throw InvalidArgument("the number of ranks is missing; give -np N, such as hororun -np 2 " +
                            options.program[0]);
    throw InvalidArgument(
        "the number of ranks is missing, because the hostfile has no slots; give -np N");
  }
  const int ranks = *options.ranks;
  if (options.oversubscribe) return ranks;
  if (slots && ranks > *slots)
    throw InvalidArgument(
        fmt::format("-np {} is more than the {} of the hosts; give them more slots, or add "
                    "--oversubscribe",
                    ranks, format_count(static_cast<std::size_t>(*slots), "slot")));
  if (hosts.empty() && ranks > kMaxRanksPerCore * machine.cores)
    throw InvalidArgument(fmt::format(
        "-np {} is more than {} ranks per core on this machine with {}; name hosts "
        "with -H, or add --oversubscribe",
        ranks, kMaxRanksPerCore, format_count(static_cast<std::size_t>(machine.cores), "core")));
  return ranks;
}

/// Whether one of the user's arguments for mpirun contains `word`, the name of an option or a
/// parameter.
bool mentions(const LaunchOptions& options, std::string_view word) {
  return std::any_of(
      options.mpi_arguments.begin(), options.mpi_arguments.end(),
      [&](const std::string& argument) { return argument.find(word) != std::string::npos; });
}

/// Whether the user sets the parameter `name` of Open MPI, by an argument for mpirun or by a
/// variable. hororun does not set such a parameter, because the argument of hororun would override
/// the variable. A `name` that ends in '_' stands for all parameters whose names begin with `name`.
bool is_set_by_user(const LaunchOptions& options, const Machine& machine, std::string_view name) {
  const auto sets = [&](std::string_view variable) {
    if (!variable.starts_with(kParameterPrefix)) return false;
    variable.remove_prefix(kParameterPrefix.size());
    return name.ends_with('_') ? variable.starts_with(name) : variable == name;
  };
  return mentions(options, name) ||
         std::ranges::any_of(machine.environment,
                             [&](const std::string& entry) {
                               return sets(std::string_view(entry).substr(0, entry.find('=')));
                             }) ||
         std::ranges::any_of(options.environment,
                             [&](const auto& variable) { return sets(variable.first); });
}

/// The variables that hororun passes to every rank.
std::map<std::string, std::string> rank_environment(const LaunchOptions& options,
                                                    const Machine& machine, int ranks_on_host) {
  std::map<std::string, std::string> variables;
  variables["OMP_NUM_THREADS"] = std::to_string(std::max(1, machine.cores / ranks_on_host));
  for (const std::string& entry : machine.environment) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals != std::string::npos && (name.starts_with("HORO_") || name == "OMP_NUM_THREADS"))
      variables[name] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : options.environment) variables[name] = value;
  return variables;
}

/// Returns the words of the program in a form that mpirun passes on unchanged. For mpirun, the word
/// ":" separates two programs. If a word is ":", a shell starts the program.
std::vector<std::string> past_mpirun(const std::vector<std::string>& program) {
  if (std::find(program.begin(), program.end(), ":") == program.end()) return program;
  return {"sh", "-c", "exec " + shell_join(program)};
}

/// Returns HORO_TIMEOUT of the ranks. If the value is not a duration, returns the default, because
/// check_settings() reports the invalid value.
std::chrono::nanoseconds timeout_in(const std::map<std::string, std::string>& variables) {
  const std::chrono::nanoseconds default_timeout = Settings().timeout;
  const auto found = variables.find("HORO_TIMEOUT");
  if (found == variables.end()) return default_timeout;
  try {
    return parse_duration(found->second);
  } catch (const InvalidArgument&) {
    return default_timeout;
  }
}

/// Returns arguments with which mpirun detects a lost host after nine tenths of HORO_TIMEOUT, but
/// after at least 4 s and at most 270 s. By default, Open MPI detects it after 8 minutes. The
/// probes should end before HORO_TIMEOUT: when ranks then fail, mpirun sends messages to all hosts,
/// and the kernel sends no probes while a message is unacknowledged.
std::vector<std::string> keepalive_arguments(std::chrono::nanoseconds timeout) {
  constexpr long kProbes = 3;
  const long total = std::clamp<long>(
      std::chrono::duration_cast<std::chrono::seconds>(timeout / 10 * 9).count(), 4, 270);
  const long interval = std::max(1L, total / 10);
  return {"--mca", "oob_tcp_keepalive_time",   std::to_string(total - kProbes * interval),
          "--mca", "oob_tcp_keepalive_intvl",  std::to_string(interval),
          "--mca", "oob_tcp_keepalive_probes", std::to_string(kProbes)};
}

/// Whether mpirun needs the option for a job without remote hosts (plm isolated). If neither ssh
/// nor rsh is installed, mpirun does not start even local ranks without this option.
bool must_be_isolated(const LaunchOptions& options, std::span<const Host> hosts,
                      const Machine& machine) {
  return !machine.has_remote_shell && are_all_local(hosts, machine) &&
         variable_in(machine.environment, "SLURM_JOB_ID").empty() &&
         !is_set_by_user(options, machine, "plm");
}

std::string join_hosts(std::span<const Host> hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.slots.value_or(1));
  return text;
}

/// Whether `name` is a host name with a domain. By default, mpirun removes the domain and searches
/// for a host with the short name.
bool has_domain(std::string_view name) {
  return name.find('.') != std::string_view::npos &&
         name.find_first_not_of("0123456789.") != std::string_view::npos;
}

bool must_keep_domains(std::span<const Host> hosts, const Machine& machine) {
  return has_domain(machine.host_name) ||
         std::any_of(hosts.begin(), hosts.end(),
                     [](const Host& host) { return has_domain(host.name); });
}

}  // namespace

MpirunCommand compose_mpirun(const LaunchOptions& options, std::span<const Host> hosts,
                             const Machine& machine) {
  const int ranks = rank_count(options, hosts, machine);
  const int ranks_on_host = ranks_on_busiest_host(hosts, ranks, machine.cores);
  std::map<std::string, std::string> variables = rank_environment(options, machine, ranks_on_host);

  MpirunCommand command;
  std::vector<std::string>& arguments = command.arguments;
  const auto add = [&](auto... words) { (arguments.emplace_back(words), ...); };
  add("mpirun", "-np", std::to_string(ranks));
  if (options.hosts) add("-H", join_hosts(hosts));
  if (options.hostfile) add("--hostfile", *options.hostfile);
  const auto is_free = [&](std::string_view name) {
    return !is_set_by_user(options, machine, name);
  };
  const bool may_oversubscribe =
      is_free("rmaps_base_oversubscribe") && is_free("rmaps_base_no_oversubscribe");
  if (options.oversubscribe || (hosts.empty() && may_oversubscribe)) add("--oversubscribe");
  // By default, mpirun binds each rank to one core or one socket, but a rank has several threads.
  if (!mentions(options, "bind-to") && is_free("hwloc_base_binding_policy"))
    add("--bind-to", "none");
  const auto set = [&](const char* name, const char* value) {
    if (is_free(name)) add("--mca", name, value);
  };
  // Otherwise waits inside MPI would occupy cores that other ranks need.
  if (ranks_on_host > machine.cores) set("mpi_yield_when_idle", "1");
  if (!machine.allows_cross_memory_copy) set("btl_vader_single_copy_mechanism", "none");
  if (must_be_isolated(options, hosts, machine)) add("--mca", "plm", "isolated");
  if (must_keep_domains(hosts, machine)) set("orte_keep_fqdn_hostnames", "1");
  if (!are_all_local(hosts, machine) && is_free("oob_tcp_keepalive_"))
    for (std::string& word : keepalive_arguments(timeout_in(variables))) add(std::move(word));
  if (options.output_directory) add("--output-filename", *options.output_directory + ":nojobid");
  for (const auto& [name, value] : variables) add("-x", name);
  arguments.insert(arguments.end(), options.mpi_arguments.begin(), options.mpi_arguments.end());
  const std::vector<std::string> program = past_mpirun(options.program);
  command.program = arguments.size();
  arguments.insert(arguments.end(), program.begin(), program.end());

  if (machine.is_root) {
    variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  const auto set_variable = [&](const char* name, const char* value) {
    if (is_free(name)) variables[fmt::format("{}{}", kParameterPrefix, name)] = value;
  };
  set_variable(kCrashParameter, "");
  set_variable(kSharedMemoryParameter, "mmap");
  command.environment.assign(variables.begin(), variables.end());
  return command;
}

std::string to_shell_line(const MpirunCommand& command) {
  std::string line;
  for (const auto& [name, value] : command.environment)
    line += name + "=" + shell_quote(value) + " ";
  return line + shell_join(command.arguments);
}

}  // namespace horo
