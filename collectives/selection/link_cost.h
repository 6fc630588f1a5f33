#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/point_to_point.h"
#include "horo/base/system/line_file.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// The cost of messages between nodes. A message of N bytes takes alpha + N * beta seconds.
/// (Source: Hockney, "The communication challenge for MPP", 1994.)
struct LinkCost {
  double alpha = 0;  ///< seconds per message
  double beta = 0;   ///< seconds per byte sent
  double gamma = 0;  ///< seconds to combine one byte with another

  bool operator==(const LinkCost&) const = default;
};

/// The costs that are assumed where a result must not depend on a measurement. They represent TCP
/// over 10 Gbit/s Ethernet, and a processor that combines 10 GB/s.
inline constexpr LinkCost kNominalLink{20e-6, 0.8e-9, 0.1e-9};

/// The shape of a job. It is the key of a line in a link file.
struct JobShape {
  int nodes = 1;
  int ranks = 1;  ///< of all nodes together
};

/// Returns one line of a link file, without the line feed, such as "nodes=4 ranks=8 alpha=2.1e-05
/// beta=8.3e-09 gamma=1e-10". Numbers are written with enough digits to be read back exactly.
std::string link_line(const JobShape& shape, const LinkCost& link);

/// Returns the costs for `shape` in `text`, the contents of a link file, or nullopt if no line has
/// this shape. If several lines have this shape, uses the first of them. Skips empty lines and
/// lines that begin with #. If any other line does not have the format of link_line(), throws
/// InvalidArgument with `path`, the number of the line and the reason.
std::optional<LinkCost> find_link(std::string_view text, const JobShape& shape,
                                  std::string_view path);

/// Appends a line to the link file. Throws InvalidArgument if the file cannot be written.
void add_to_link_file(const LineFile& file, const JobShape& shape, const LinkCost& link);

/// Measures the cost of messages between nodes. The first ranks of nodes 0 and 1, 2 and 3, ...
/// exchange small and large messages. The pairs measure concurrently, without waiting for each
/// other. On the even node of a pair, the rank measures, and also times the kernel that combines
/// values. The results are medians. For each message size, the number of rounds is limited, and the
/// first round that starts after 40 ms is the last. Returns the result on each rank that measures,
/// and zeros on all other ranks.
///
/// Collective over `peers`, which connects all ranks of the job. No other code may use `peers`
/// during the call. If a wait times out, throws CommunicationError with the name of the awaited
/// rank.
LinkCost measure_link(PointToPoint& peers, const Topology& topology);

}  // namespace horo::collectives
