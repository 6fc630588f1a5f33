#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "horo/flight_recorder/flight_reader.h"

namespace horo::observe {

struct TimeSpan {
  WallTime begin = 0, end = 0;
};

/// Merges spans that overlap or touch. Returns disjoint spans, sorted by begin. Pure.
std::vector<TimeSpan> merge_spans(std::vector<TimeSpan> spans);
/// Returns the total length of disjoint spans, in ns.
std::int64_t length_of(std::span<const TimeSpan> spans);

/// Returns how many ns of the disjoint `spans` a rank spent in each phase. Time in a nested phase
/// is added only to the inner phase. Time outside all phases has an empty name. Pure.
std::map<std::string, std::int64_t> phase_times(const FlightLog& rank,
                                                std::span<const TimeSpan> spans);

/// How long a rank delayed the others, and how long this rank waited itself. Covers the operations
/// that are in the recorders of all ranks. Times are in ns.
struct RankTimes {
  int rank = 0;
  std::string host;
  std::uint64_t last = 0;    ///< number of operations that this rank submitted last
  std::int64_t delayed = 0;  ///< time in which only this rank had not submitted such an operation
  /// Time in which this rank had submitted such an operation that another rank had not submitted.
  std::int64_t waited = 0;
  std::string phase;  ///< the phase with most of `delayed`; empty if none
};

struct StragglerReport {
  std::uint64_t operations = 0;  ///< number of operations in the recorders of all ranks
  std::int64_t span = 0;         ///< from the first submission to the last end
  std::vector<RankTimes> ranks;  ///< sorted by `delayed`, largest first
};

/// Compares when the ranks submitted their common operations: named operations by submission,
/// buckets by their last mark. Pure.
///
/// Records of the same name on different ranks count as one operation if they overlap in time,
/// because most collectives end on no rank before they have started on all ranks. So the clocks
/// must agree to within the duration of an operation. Delays and waits are as exact as the clocks.
StragglerReport find_stragglers(std::span<const FlightLog> ranks);

/// Formats the report for a console. The table has the waiting time and the own time of each rank.
/// The own time is the span minus the waiting time. For more than 16 ranks, the table has only the
/// fastest, the median and the slowest four ranks by own time. Below the table are up to three
/// ranks that delayed the others most, with host and phase. Ranks that delayed the others by less
/// than 1 % of the span are not among them.
std::string describe(const StragglerReport& report);

}  // namespace horo::observe
