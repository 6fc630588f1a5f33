#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "horo/base/topology.h"

namespace horo::collectives {

/// How each of `ranks` is called in errors, in their order.
inline std::vector<std::string> names_of(const Topology& topology, const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(topology.describe(rank));
  return names;
}

/// The same for all ranks of the job.
inline std::vector<std::string> names_of(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return names_of(topology, ranks);
}

}  // namespace horo::collectives
