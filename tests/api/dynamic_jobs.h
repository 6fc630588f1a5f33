#pragma once

#include <string>
#include <vector>

#include "horo/testing.h"

namespace horo {

/// A shape of job, with delays, for tests of named operations.
struct DynamicJob {
  int ranks = 1;
  testing::RunOptions options;
};

/// One node and several nodes, with one, two and three ranks each. Messages between nodes are
/// delayed.
inline std::vector<DynamicJob> dynamic_jobs() {
  std::vector<DynamicJob> jobs;
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const int per_node : {0, 1, 2, 3}) {
      if (per_node > 0 && (ranks == 1 || per_node >= ranks)) continue;
      DynamicJob job{ranks, {}};
      job.options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(per_node)};
      if (per_node > 0) job.options.max_delay = std::chrono::microseconds(200);
      job.options.seed = static_cast<std::uint64_t>(ranks * 10 + per_node);
      jobs.push_back(std::move(job));
    }
  return jobs;
}

}  // namespace horo
