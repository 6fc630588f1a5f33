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

/// The share of the steps after the warm-up that have passed.
double progress(const LearningRateSchedule& schedule, std::size_t step, const char* name) {
  HORO_CHECK(
      schedule.total_steps > schedule.warm_up_steps,
      fmt::format("{} learning rate: total_steps is {}; must be above warm_up_steps, which is {}",
                  name, schedule.total_steps, schedule.warm_up_steps));
  const auto length = static_cast<double>(schedule.total_steps - schedule.warm_up_steps);
  return std::min(1.0, static_cast<double>(step - schedule.warm_up_steps) / length);
}

/// `share` of the base rate remains above the final rate.
double between(const LearningRateSchedule& schedule, double share) {
  return schedule.final_rate + (schedule.base_rate - schedule.final_rate) * share;
}

double cosine(const LearningRateSchedule& schedule, std::size_t step) {
  const double passed = progress(schedule, step, "cosine");
  return between(schedule, 0.5 * (1.0 + std::cos(std::numbers::pi * passed)));
}

double polynomial(const LearningRateSchedule& schedule, std::size_t step) {
  HORO_CHECK(schedule.power > 0,
             fmt::format("polynomial learning rate: power is {}; must be above 0", schedule.power));
  return between(schedule, std::pow(1 - progress(schedule, step, "polynomial"), schedule.power));
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
    case Decay::kPolynomial:
      return polynomial(schedule, step);
    case Decay::kConstant:
      break;
  }
  return schedule.base_rate;
}

double linear_scaling(double rate, std::size_t base_batch, std::size_t batch) {
  HORO_CHECK(base_batch > 0 && batch > 0,
             fmt::format("linear scaling: batches have {} and {} samples; must be above 0",
                         base_batch, batch));
  return rate * static_cast<double>(batch) / static_cast<double>(base_batch);
}

}  // namespace horo::ops
