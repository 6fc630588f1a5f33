#include "horo/observe/time_spans.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace horo::observe {
namespace {

std::int64_t overlap(const TimeSpan& a, const TimeSpan& b) {
  return std::max<std::int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

std::int64_t overlap(const TimeSpan& time, std::span<const TimeSpan> spans) {
  std::int64_t sum = 0;
  for (const TimeSpan& span : spans) sum += overlap(time, span);
  return sum;
}

struct PhaseSpan : TimeSpan {
  const std::string* name = nullptr;
};

// Outer ones before those within them.
std::vector<PhaseSpan> phases_of(const FlightLog& rank) {
  std::vector<PhaseSpan> phases;
  for (const FlightEvent& event : rank.finished_events)
    if (event.kind == kPhaseKind) phases.push_back({{event.started, event.ended}, &event.name});
  if (!rank.phase.empty())
    phases.push_back({{rank.phase_since, std::numeric_limits<WallTime>::max()}, &rank.phase});
  std::ranges::sort(phases, {}, [](const PhaseSpan& p) { return std::tuple(p.begin, -p.end); });
  return phases;
}

}  // namespace

std::vector<TimeSpan> unite(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  std::vector<TimeSpan> united;
  for (const TimeSpan& span : spans)
    if (united.empty() || united.back().end < span.begin)
      united.push_back(span);
    else
      united.back().end = std::max(united.back().end, span.end);
  return united;
}

std::int64_t length_of(std::span<const TimeSpan> spans) {
  std::int64_t sum = 0;
  for (const TimeSpan& span : spans) sum += span.end - span.begin;
  return sum;
}

std::map<std::string, std::int64_t> phase_times(const FlightLog& rank,
                                                std::span<const TimeSpan> spans) {
  std::map<std::string, std::int64_t> times;
  std::vector<PhaseSpan> outer;
  times[""] = length_of(spans);
  for (const PhaseSpan& phase : phases_of(rank)) {
    while (!outer.empty() && outer.back().end <= phase.begin) outer.pop_back();
    const std::int64_t time = overlap(phase, spans);
    times[*phase.name] += time;
    times[outer.empty() ? "" : *outer.back().name] -= time;
    outer.push_back(phase);
  }
  return times;
}

}  // namespace horo::observe
