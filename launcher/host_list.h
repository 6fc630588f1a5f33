#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// A machine on which ranks are started.
struct Host {
  std::string name;
  /// The number of ranks that the host takes. None: its number of cores, which only the mpirun
  /// daemon on that host can determine.
  std::optional<int> slots;

  bool operator==(const Host&) const = default;
};

/// Reads "a:4,b:4" (a host without slots takes one rank). Throws InvalidArgument with the wrong
/// part and the correct form.
std::vector<Host> parse_host_list(std::string_view text);

/// Reads the text of a hostfile: one host per line, "NAME [slots=N] [max_slots=N]" (max-slots is
/// the same). Ignores blank lines and comments after #. `file_name` is for messages. Throws
/// InvalidArgument whose text begins with "file_name:line: ".
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file_name);

/// The sum of the slots of all hosts; none if the slots of a host are unknown.
std::optional<int> total_slots(std::span<const Host> hosts);

/// The number of ranks on the busiest host when mpirun fills the hosts in order with `ranks` ranks.
/// `cores` replaces unknown slots of a host.
int ranks_on_busiest_host(std::span<const Host> hosts, int ranks, int cores);

}  // namespace horo
