#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// A machine on which mpirun may start ranks.
struct Host {
  std::string name;
  /// The number of ranks that the host takes. If unset, the host takes as many ranks as it has
  /// cores. Only the mpirun daemon on that host can determine that number.
  std::optional<int> slots;

  bool operator==(const Host&) const = default;
};

/// Reads a list such as "a:4,b:4". A host without slots takes one rank. Throws InvalidArgument with
/// the wrong part and the correct form.
std::vector<Host> parse_host_list(std::string_view text);

/// Reads the text of a hostfile. Each line has one host: "NAME [slots=N] [max_slots=N]". max_slots,
/// or max-slots, is checked but not used. Blank lines and comments after # are ignored. `file_name`
/// is for messages. Throws an InvalidArgument whose text begins with the file name and the number
/// of the line, or with the file name alone if the file has no host.
std::vector<Host> parse_hostfile(std::string_view text, std::string_view file_name);

/// Returns the sum of the slots of all hosts, or nullopt if the slots of any host are unknown.
std::optional<int> total_slots(std::span<const Host> hosts);

/// Returns the largest number of ranks that one host may get if mpirun distributes `ranks` ranks to
/// the hosts in order. If the slots of a host are unknown, assumes `cores` slots. Without hosts,
/// returns `ranks`.
int ranks_on_busiest_host(std::span<const Host> hosts, int ranks, int cores);

}  // namespace horo
