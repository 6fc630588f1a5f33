#include "ops/train/bottleneck/scaling_model.h"

#include <algorithm>
#include <cmath>

namespace horo::ops {
namespace {

// The part of an exchange that grows with the number of messages.
double latency_part(const CommunicationCosts& communication) {
  const double latency =
      communication.latency_ms * static_cast<double>(communication.exchange.buckets);
  return std::min(latency, communication.exchange.milliseconds);
}

double communication_with(const CommunicationCosts& communication, double ranks, double factor) {
  const double latency = latency_part(communication);
  const double transfer = communication.exchange.milliseconds - latency;
  const double more = ranks * factor;
  return latency * (more - 1) / (ranks - 1) +
         transfer * ((more - 1) / more) / ((ranks - 1) / ranks);
}

}  // namespace

double ScalingModel::step_ms() const { return std::max(compute_ms, communication_ms) + rest_ms; }

std::optional<ScalingModel> scaling_model(const JobCosts& job, const StepReplay& replay) {
  if (!job.communication || job.ranks.size() < 2) return std::nullopt;
  const CommunicationCosts& communication = *job.communication;
  ScalingModel model{.compute_ms = replay.longest_compute_ms(),
                     .communication_ms = communication.exchange.milliseconds};
  const double step = replay.step_ms();
  model.rest_ms = std::max(0.0, step - std::max(model.compute_ms, model.communication_ms));
  const double ranks = static_cast<double>(job.ranks.size());
  for (const int factor : {2, 4, 8}) {
    ScalingModel larger = model;
    larger.communication_ms = communication_with(communication, ranks, factor);
    model.predictions.push_back({.ranks = factor * static_cast<int>(job.ranks.size()),
                                 .communication_ms = larger.communication_ms,
                                 .step_ms = larger.step_ms(),
                                 .efficiency = model.step_ms() / larger.step_ms()});
  }
  if (model.compute_ms > 0 && job.global_batch > 0)
    model.hiding_batch = static_cast<std::uint64_t>(std::ceil(
        static_cast<double>(job.global_batch) * model.communication_ms / model.compute_ms));
  return model;
}

}  // namespace horo::ops
