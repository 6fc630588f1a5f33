#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/flight_reader.h"

namespace horo::observe {

/// How much of its time a rank let the others wait, and waited itself, over the operations that the
/// flights of all ranks hold. Times are ns.
struct RankTimes {
  int rank = 0;
  std::string host;
  std::uint64_t last = 0;    ///< operations to which it came last
  std::int64_t delayed = 0;  ///< time in which all but it had come to one of those
  std::int64_t waited = 0;   ///< time in which it had come to one of all and the last had not
  std::string phase;         ///< in which it spent most of `delayed`; empty: none
};

struct StragglerReport {
  std::uint64_t operations = 0;  ///< that all ranks took part in
  std::int64_t span = 0;         ///< from the first of them to the end of the last
  std::vector<RankTimes> ranks;  ///< by delayed, largest first
};

/// Compares when the ranks came to the operations that they share: named operations by their
/// submission, buckets by their last mark. An operation on one rank and one of the same name on
/// another are the same if they ran at the same time: a collective cannot end anywhere before it
/// has begun everywhere. So clocks need to agree only to within the time of an operation; arrivals
/// are as exact as the clocks are aligned. Pure.
StragglerReport find_stragglers(std::span<const FlightLog> ranks);

/// Lines for a console: a table of each rank's own time (the span without that in which it waited
/// for others) and its waiting time, of more than 16 ranks for the quickest, the median and the
/// slowest four; then the three that the others waited for most, with host and phase, and whether
/// that matters. `rank`s that came last by less than 1 % of the span are not blamed.
std::string describe(const StragglerReport& report);

}  // namespace horo::observe
