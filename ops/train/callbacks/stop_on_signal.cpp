#include "ops/train/callbacks/stop_on_signal.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace horo::ops {

StopOnSignal::StopOnSignal(const std::vector<int>& signals)
    : signals_(signals.begin(), signals.end()) {}

StepRequests StopOnSignal::requests() {
  const bool stops = std::ranges::any_of(signals_, &SignalWatch::was_received);
  return {.stop = stops ? 1.0f : 0.0f};
}

void StopOnSignal::on_outcome(TrainingRun& run, std::uint64_t /*step*/,
                              const StepOutcome& outcome) {
  if (outcome.requests.stop > 0 && !std::exchange(is_reported_, true))
    run.display.print(
        fmt::format("training stops after step {}, as a rank has requested", run.steps));
}

}  // namespace horo::ops
