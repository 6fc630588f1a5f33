#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "horo/metrics/arrival_skew.h"
#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_line.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::metrics {

/// What a page of metrics shows. Times are ns.
struct MetricsPicture {
  RankLabel rank;
  int size = 1;
  bool is_running = true;  ///< has neither left the job nor failed
  bool is_paused = false;  ///< in a Context::pause()
  observe::WallTime written = 0;
  std::int64_t since_progress = 0;  ///< since a bucket or a named operation last finished
  std::uint64_t operations = 0;     ///< named ones that have finished
  std::uint64_t lost_lines = 0;
  RankMeter::Picture meter;
  /// Of rank 0: all ranks.
  std::vector<RankComparison> ranks;
  std::vector<PlanSkew> skews;
};

/// The page of a rank in Prometheus's text format; docs/metrics.md says what its metrics mean.
/// Pure.
std::string metrics_page(const MetricsPicture& picture);

/// Of `ranks` those that the others waited for most, the first three at most, and only those that
/// made them wait for more than 1 % of the time that they have been in the job. Pure.
std::vector<RankComparison> find_stragglers(std::vector<RankComparison> ranks);

}  // namespace horo::metrics
