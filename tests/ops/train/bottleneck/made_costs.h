#pragma once

#include <functional>
#include <initializer_list>
#include <utility>

#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// The phases of a step; the others are 0. The total is their sum.
inline StepTimes step_of(std::initializer_list<std::pair<StepPhase, double>> phases) {
  StepTimes step;
  for (const auto& [phase, milliseconds] : phases) {
    step[phase] = milliseconds;
    step.total_ms += milliseconds;
  }
  return step;
}

/// A job of `ranks` ranks and 100 steps. `phases_of` returns the phases of a rank in a step without
/// the exchange; here each step ends when the last rank has arrived, plus `communication_ms`.
inline JobCosts made_job(
    std::size_t ranks, double communication_ms,
    const std::function<StepTimes(std::size_t rank, std::size_t step)>& phases_of) {
  JobCosts job{.global_batch = 16 * ranks};
  for (std::size_t rank = 0; rank < ranks; ++rank)
    job.ranks.push_back(
        {.rank = static_cast<int>(rank),
         .host = "host",
         .samples_per_step = 16,
         .process = {.seconds = 10, .cpu_seconds = 5, .cores = 4, .idle_cores = 3}});
  std::vector<double> begin(ranks, 0.0);
  for (std::size_t number = 0; number < 100; ++number) {
    std::vector<double> arrival(ranks);
    double last = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const StepTimes step = phases_of(rank, number);
      arrival[rank] = begin[rank] + step[StepPhase::kDataWait] + step[StepPhase::kForward] +
                      step[StepPhase::kBackward];
      last = std::max(last, arrival[rank]);
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      StepTimes step = phases_of(rank, number);
      step[StepPhase::kExposedCommunication] = last + communication_ms - arrival[rank];
      begin[rank] = last + communication_ms + step[StepPhase::kOptimizer] +
                    step[StepPhase::kLogging] + step[StepPhase::kCheckpoint];
      step.total_ms = 0;
      for (const double phase : step.phase_ms) step.total_ms += phase;
      job.ranks[rank].steps.push_back(step);
    }
  }
  return job;
}

/// Forward 3 ms, backward 6 ms, optimizer 0.5 ms, and `more`.
inline StepTimes usual_step(std::initializer_list<std::pair<StepPhase, double>> more = {}) {
  StepTimes step = step_of(more);
  step[StepPhase::kForward] += 3;
  step[StepPhase::kBackward] += 6;
  step[StepPhase::kOptimizer] += 0.5;
  return step;
}

}  // namespace horo::ops
