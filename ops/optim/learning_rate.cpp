#include "ops/optim/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

double stepped(const LearningRateSchedule& schedule, std::size_t step) {
  const auto passed = std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                                    [&](std::size_t milestone) { return milestone <= step; });
  return schedule.base_rate * std::pow(schedule.step_factor, static_cast<double>(passed));
}

double cosine(const LearningRateSchedule& schedule, std::size_t step) {
  HORO_CHECK(
      schedule.total_steps > schedule.warm_up_steps,
      fmt::format(
          "cosine learning rate: total_steps is {}; must be above warm_up_steps, which is {}",
          schedule.total_steps, schedule.warm_up_steps));
  const auto length = static_cast<double>(schedule.total_steps - schedule.warm_up_steps);
  const double progress =
      std::min(1.0, static_cast<double>(step - schedule.warm_up_steps) / length);
  const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return schedule.final_rate + (schedule.base_rate - schedule.final_rate) * share;
}

}  // namespace

// A function of the step alone, without state: every rank computes the same rate, and a resumed run
// continues with it.
double learning_rate_at(const LearningRateSchedule& schedule, std::size_t step) {
  if (step < schedule.warm_up_steps) {
    const double progress = static_cast<double>(step) / static_cast<double>(schedule.warm_up_steps);
    return schedule.start_rate + (schedule.base_rate - schedule.start_rate) * progress;
  }
  switch (schedule.decay) {
    case Decay::kStep:
      return stepped(schedule, step);
    case Decay::kCosine:
      return cosine(schedule, step);
    case Decay::kConstant:
      break;
  }
  return schedule.base_rate;
}

}  // namespace horo::ops
