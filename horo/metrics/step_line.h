#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horo/metrics/step_record.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::metrics {

/// Whose steps are written.
struct RankLabel {
  std::uint64_t job = 0;
  int rank = 0;
  std::string host;
};

/// A step as one line of JSON, without its end; docs/metrics.md says what the members mean.
/// `wall_offset`: what is to be added to flight_clock() for this host's wall clock. Phases without
/// time are left out. Pure.
std::string step_line(const RankLabel& rank, const PlanLabel& plan, const StepRecord& step,
                      std::span<const std::string> phase_names, std::int64_t wall_offset);

}  // namespace horo::metrics
