#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace horo {

/// The properties of this machine and process on which the command line of mpirun depends.
struct Machine {
  std::string host_name;
  int cores = 1;  ///< limited by the affinity mask and by the CPU quota of a container
  bool is_root = false;
  /// Whether ssh or rsh is on PATH. If neither is, mpirun needs an option that disables starts on
  /// other hosts.
  bool has_remote_shell = true;
  /// Whether a process may copy from the memory of another process. Some containers forbid this.
  bool allows_cross_memory_copy = true;
  std::vector<std::string> environment;  ///< "NAME=VALUE" entries
};

Machine inspect_machine();

/// If the soft limit of open files (ulimit -n) is lower than the number that mpirun needs for
/// `ranks` ranks, raises the limit of this process and its later children to that number. Throws
/// InvalidArgument if the limit cannot be raised.
void require_open_files(int ranks);

/// Whether `host` is "localhost", "127.0.0.1" or the host name of this machine.
bool is_this_machine(const Machine& machine, std::string_view host);

/// Returns the value of `name` in "NAME=VALUE" entries, or an empty text if there is no such entry.
std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name);

/// The same as a decimal integer. Returns nullopt if there is no such entry or its value is not a
/// decimal integer.
template <class Number>
std::optional<Number> number_in(const std::vector<std::string>& environment,
                                std::string_view name) {
  const std::string_view text = variable_in(environment, name);
  Number value{};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns the number of cores that a control group allows, rounded up, at least 1 and at most
/// `cores`. `cpu_max` is the first line of the file cpu.max of the group.
int cores_within_quota(std::string_view cpu_max, int cores);

}  // namespace horo
