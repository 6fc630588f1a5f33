#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/flight_reader.h"

namespace horo::observe {

struct TimeSpan {
  WallTime begin = 0, end = 0;
};

/// The same time as disjoint spans, by their begin. Pure.
std::vector<TimeSpan> unite(std::vector<TimeSpan> spans);
/// In ns, of disjoint spans.
std::int64_t length_of(std::span<const TimeSpan> spans);

/// How many ns of disjoint `spans` a rank spent in each phase, less the time in phases within it.
/// The name of time in no phase is empty. Pure.
std::map<std::string, std::int64_t> phase_times(const FlightLog& rank,
                                                std::span<const TimeSpan> spans);

}  // namespace horo::observe
