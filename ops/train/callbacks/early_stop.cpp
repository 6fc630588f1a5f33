#include "ops/train/callbacks/early_stop.h"

#include <fmt/core.h>

#include <cstdlib>

namespace horo::ops {

EarlyStop::EarlyStop(const EarlyStopOptions& options) : options_(options) {
  HORO_CHECK(options.patience > 0, "EarlyStop: patience is 0; choose at least 1 evaluation");
  HORO_CHECK(
      options.min_decrease >= 0,
      fmt::format("EarlyStop: min_decrease is {}; it must be at least 0", options.min_decrease));
}

// A NaN loss is no improvement, because every comparison with it is false.
bool EarlyStop::after_evaluation(TrainingRun& run, const Evaluation& evaluation) {
  if (evaluation.loss() < best_ - options_.min_decrease) {
    best_ = evaluation.loss();
    without_improvement_ = 0;
    return false;
  }
  if (++without_improvement_ < options_.patience) return false;
  run.display.print(
      fmt::format("step {}: training ends, because the test loss has not fallen below {:.6f} in {} "
                  "evaluations",
                  run.steps, best_ - options_.min_decrease, options_.patience));
  return true;
}

// Seventeen digits give the same double again.
std::string EarlyStop::state() const {
  return fmt::format("{:.17g} {}", best_, without_improvement_);
}

void EarlyStop::set_state(const std::string& state) {
  char* rest = nullptr;
  best_ = std::strtod(state.c_str(), &rest);
  without_improvement_ = std::strtoull(rest, nullptr, 10);
}

}  // namespace horo::ops
