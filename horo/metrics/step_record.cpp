#include "horo/metrics/step_record.h"

#include <algorithm>

namespace horo::metrics {

std::size_t PhaseTimes::index_of(std::string_view name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  if (names_.size() == kMostPhases) return kMostPhases - 1;
  names_.emplace_back(names_.size() + 1 < kMostPhases ? name : kOtherPhases);
  return names_.size() - 1;
}

// Adds the time since the last call to the total of the innermost open phase. The caller must call
// this function before it changes open_.
void PhaseTimes::accumulate(std::int64_t now) {
  if (!open_.empty()) totals_[open_.back().index] += now - accumulated_until_;
  accumulated_until_ = now;
}

std::uint64_t PhaseTimes::begin(std::string_view name, std::int64_t now) {
  accumulate(now);
  open_.push_back({++begun_, index_of(name)});
  return begun_;
}

void PhaseTimes::end(std::uint64_t number, std::int64_t now) {
  const auto found = std::ranges::find(open_, number, &Open::number);
  if (found == open_.end()) return;
  accumulate(now);
  open_.erase(found);
}

PhaseNanoseconds PhaseTimes::totals(std::int64_t now) const {
  PhaseNanoseconds totals = totals_;
  if (!open_.empty()) totals[open_.back().index] += now - accumulated_until_;
  return totals;
}

void StepSums::add(const StepRecord& step) {
  ++steps;
  length += step.length;
  blocked += step.blocked;
  exposed += step.exposed;
  exchange += step.exchange;
  bytes += step.bytes;
  if (step.wire_bytes) wire_bytes = wire_bytes.value_or(0) + *step.wire_bytes;
}

}  // namespace horo::metrics
