#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// A machine that ranks are started on.
struct Host {
  std::string name;
  /// Ranks it takes; none: as many as it has cores, which only its own mpirun daemon knows.
  std::optional<int> slots;

  bool operator==(const Host&) const = default;
};

/// Reads "a:4,b:4" (a host without slots takes one rank). Throws InvalidArgument that names the
/// part that is wrong and how to write it.
std::vector<Host> parse_host_list(std::string_view text);

/// Reads the text of a hostfile: one host a line, "NAME [slots=N] [max_slots=N]" (max-slots is the
/// same); blank lines and what follows # are ignored. `file_name` is for messages. Throws
/// InvalidArgument that begins with "file_name:line: ".
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file_name);

/// The slots of all hosts together; none if a host does not say.
std::optional<int> total_slots(std::span<const Host> hosts);

/// How many of `ranks` ranks the busiest host gets when hosts are filled in order. `cores` stands
/// for the slots of a host that does not say.
int ranks_on_busiest_host(std::span<const Host> hosts, int ranks, int cores);

}  // namespace horo
