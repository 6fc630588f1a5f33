#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/metrics/step_record.h"

namespace horo::metrics {

/// Identifies the rank in its lines and on its page.
struct RankLabel {
  std::uint64_t job = 0;
  int rank = 0;
  std::string host;
};

/// Returns a step as one line of JSON, without the newline. docs/guides/metrics.md describes the
/// members. `wall_offset` is this host's wall clock minus flight_clock(), in ns. Omits phases whose
/// time is 0. Pure.
std::string step_line(const RankLabel& rank, const PlanLabel& plan, const StepRecord& step,
                      std::span<const std::string> phase_names, std::int64_t wall_offset);

}  // namespace horo::metrics
