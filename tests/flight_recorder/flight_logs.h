#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "horo/flight_recorder/flight_reader.h"

namespace horo::observe {

inline constexpr WallTime kMillisecond = 1'000'000;
/// The start time of the generated logs.
inline constexpr WallTime kStart = 1'700'000'000'000 * kMillisecond;

/// Logs without events; two ranks per host "a", "b", ...
inline std::vector<FlightLog> empty_flights(int ranks) {
  std::vector<FlightLog> logs(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    FlightLog& log = logs[static_cast<std::size_t>(r)];
    log.rank = r;
    log.size = ranks;
    log.host = std::string(1, static_cast<char>('a' + r / 2));
    log.pid = 100 + r;
    log.begun = kStart;
    log.pulse = kStart + 1000 * kMillisecond;
  }
  return logs;
}

/// Times are in ms after kStart. `ended` is 0 for an open event.
inline FlightEvent& add_event(FlightLog& log, const std::string& name, const std::string& kind,
                              double submitted, double agreed, double started, double ended) {
  const auto at = [](double ms) {
    return ms == 0 ? WallTime{0} : kStart + static_cast<WallTime>(ms * kMillisecond);
  };
  auto& events = ended == 0 ? log.open_events : log.finished_events;
  FlightEvent& event = events.emplace_back();
  event.sequence = events.size();
  event.name = name;
  event.kind = kind;
  event.bytes = 8;
  event.lane = kind == kBucketKind ? kFirstPlanLane : kCoordinatorLane;
  event.submitted = at(submitted);
  event.agreed = at(agreed);
  event.started = at(started);
  event.ended = at(ended);
  return event;
}

inline FlightEvent& add_phase(FlightLog& log, const std::string& name, double from, double to) {
  return add_event(log, name, kPhaseKind, 0, 0, from, to);
}

}  // namespace horo::observe
