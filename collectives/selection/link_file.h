#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/selection/link_cost.h"
#include "horo/base/line_file.h"

namespace horo::collectives {

/// The shape of a job, by which a link file tells its lines apart.
struct JobShape {
  int nodes = 1;
  int ranks = 1;  ///< in all
};

/// One line of a link file, such as
/// "nodes=4 ranks=8 alpha=2.1e-05 beta=8.3e-09 gamma=1e-10", without the end of the line. Numbers
/// are written so that they are read back exactly.
std::string link_line(const JobShape& shape, const LinkCost& link);

/// The figures that `text`, the contents of a link file, has for `shape`, if any; empty lines and
/// those that begin with # are skipped. Throws InvalidArgument, naming `path`, the line and what is
/// wrong, if any line is not as link_line() writes them or two are for this shape.
std::optional<LinkCost> find_link(std::string_view text, const JobShape& shape,
                                  std::string_view path);

/// Adds a line to the link file.
void add_to_link_file(const LineFile& file, const JobShape& shape, const LinkCost& link);

}  // namespace horo::collectives
