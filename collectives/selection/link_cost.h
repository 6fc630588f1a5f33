#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/point_to_point.h"
#include "horo/base/system/line_file.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// The cost of messages between nodes, in the model of Hockney, "The communication challenge for
/// MPP", 1994: a message of N bytes takes alpha + N * beta seconds.
struct LinkCost {
  double alpha = 0;  ///< seconds per message
  double beta = 0;   ///< seconds per byte sent
  double gamma = 0;  ///< seconds per byte that is combined with another

  bool operator==(const LinkCost&) const = default;
};

/// Assumed costs where nothing may depend on a measurement: TCP over 10 Gbit/s Ethernet, and a
/// memory bandwidth of 10 GB/s.
inline constexpr LinkCost kNominalLink{20e-6, 0.8e-9, 0.1e-9};

/// The shape of a job, the key of a line in a link file.
struct JobShape {
  int nodes = 1;
  int ranks = 1;  ///< in total
};

/// Returns one line of a link file, without the line feed, such as "nodes=4 ranks=8 alpha=2.1e-05
/// beta=8.3e-09 gamma=1e-10". Numbers are written with enough digits to be read back exactly.
std::string link_line(const JobShape& shape, const LinkCost& link);

/// Returns the figures for `shape` in `text`, the contents of a link file, if any. If several lines
/// are for this shape, uses the first. Skips empty lines and lines that begin with #. Throws
/// InvalidArgument with `path`, the number of the line and the mistake if any line does not have
/// the format of link_line().
std::optional<LinkCost> find_link(std::string_view text, const JobShape& shape,
                                  std::string_view path);

/// Appends a line to the link file.
void add_to_link_file(const LineFile& file, const JobShape& shape, const LinkCost& link);

/// Measures the cost of messages between nodes. The first ranks of nodes 0 and 1, 2 and 3, ...
/// exchange small and large messages. All pairs do so at the same time, as in an allreduce. They
/// also time the kernel that combines values. Uses medians. The number of rounds and the time are
/// limited (about 100 ms, unless single messages take longer). Returns the result of this rank's
/// pair; zeros on a rank without a pair.
///
/// Collective over `peers`, which connects all ranks of the job. No other code may use `peers`
/// during the call. Throws CommunicationError with the name of the awaited rank.
LinkCost measure_link(PointToPoint& peers, const Topology& topology);

}  // namespace horo::collectives
