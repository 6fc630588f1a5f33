#include "ops/train/bottleneck/scaling_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace horo::ops {
namespace {

// The time of an exchange with `factor` times the ranks. Its latency grows with the messages.
double time_with(const CommunicationCosts& communication, double milliseconds, double ranks,
                 double factor) {
  const double latency = std::min(
      communication.latency_ms * static_cast<double>(communication.exchange.buckets), milliseconds);
  const double more = ranks * factor;
  return latency * (more - 1) / (ranks - 1) +
         (milliseconds - latency) * ((more - 1) / more) / ((ranks - 1) / ranks);
}

// The part of a measured step that local steps do not spend in exchanges; see ScalingModel. With a
// window of all steps the formula does not determine it if communication is the longer part.
double own_ms(const ScalingModel& model, const StepReplay& replay) {
  const double step = replay.step_ms();
  const auto count = static_cast<double>(model.local_steps.count);
  if (model.communication_ms <= model.window() * step) return step;
  if (model.window() >= count) return step - replay.communication_ms();
  return (step - model.communication_ms / count) / (1 - model.window() / count);
}

double rest_of(const ScalingModel& model, const StepReplay& replay) {
  if (model.local_steps.count > 0) return std::max(0.0, own_ms(model, replay) - model.compute_ms);
  return std::max(
      0.0, replay.step_ms() - std::max(model.compute_ms, model.communication_ms) - model.gather_ms);
}

// The part of the rest that more ranks divide among them.
double divided_ms(const JobCosts& job, const ScalingModel& model, const StepReplay& replay) {
  if (!job.is_sharded) return 0;
  double longest = 0;
  for (std::size_t rank = 0; rank < replay.rank_count(); ++rank)
    longest = std::max(longest, replay.mean(rank)[StepPhase::kOptimizer]);
  return std::clamp(longest - model.gather_ms, 0.0, model.rest_ms);
}

// The factor of the batch from which on nothing is exposed; nothing if there is none.
std::optional<double> hiding_factor(const ScalingModel& model) {
  if (model.compute_ms <= 0) return std::nullopt;
  if (model.local_steps.count == 0) return model.communication_ms / model.compute_ms;
  if (model.window() == 0) return std::nullopt;
  return (model.communication_ms / model.window() - model.rest_ms) / model.compute_ms;
}

}  // namespace

double ScalingModel::window() const {
  return static_cast<double>(
      std::min(local_steps.fragments * local_steps.overlap, local_steps.count));
}

double ScalingModel::exposed_ms() const {
  if (local_steps.count == 0) return std::max(0.0, communication_ms - compute_ms) + gather_ms;
  return std::max(0.0, communication_ms - window() * (compute_ms + rest_ms)) /
         static_cast<double>(local_steps.count);
}

std::optional<ScalingModel> scaling_model(const JobCosts& job, const StepReplay& replay) {
  if (!job.communication || job.ranks.size() < 2) return std::nullopt;
  const CommunicationCosts& communication = *job.communication;
  ScalingModel model{.compute_ms = replay.longest_compute_ms(),
                     .communication_ms = communication.exchange.milliseconds,
                     .gather_ms = communication.gather_ms,
                     .local_steps = job.local_steps,
                     .is_lower_bound = communication.latency_ms <= 0};
  model.rest_ms = rest_of(model, replay);
  const double divided = divided_ms(job, model, replay);
  const double ranks = static_cast<double>(job.ranks.size());
  for (const int factor : {2, 4, 8}) {
    ScalingModel larger = model;
    larger.communication_ms = time_with(communication, model.communication_ms, ranks, factor);
    larger.gather_ms = time_with(communication, model.gather_ms, ranks, factor);
    larger.rest_ms -= divided * (1 - 1.0 / factor);
    model.predictions.push_back({.ranks = factor * static_cast<int>(job.ranks.size()),
                                 .communication_ms = larger.communication_ms,
                                 .step_ms = larger.step_ms(),
                                 .efficiency = model.step_ms() / larger.step_ms()});
  }
  const std::optional<double> batches = hiding_factor(model);
  if (batches && job.global_batch > 0)
    model.hiding_batch = static_cast<std::uint64_t>(
        std::max(1.0, std::ceil(static_cast<double>(job.global_batch) * *batches)));
  return model;
}

std::string describe(const ScalingModel& model) {
  if (model.local_steps.count > 0) {
    const std::string hidden =
        model.window() > 0 ? fmt::format(", behind up to {:.0f} of them", model.window()) : "";
    return fmt::format(
        "computation {:.3g} ms + rest {:.3g} ms + exposed communication {:.3g} ms ({:.3g} ms in {} "
        "steps{})",
        model.compute_ms, model.rest_ms, model.exposed_ms(), model.communication_ms,
        model.local_steps.count, hidden);
  }
  const bool is_sharded = model.gather_ms > 0;
  return fmt::format(
      "max(computation {:.3g} ms, {} {:.3g} ms){} + rest {:.3g} ms", model.compute_ms,
      is_sharded ? "reduce-scatter" : "communication", model.communication_ms,
      is_sharded ? fmt::format(" + allgather {:.3g} ms", model.gather_ms) : "", model.rest_ms);
}

std::string describe_hiding(const ScalingModel& model) {
  return model.local_steps.count > 0
             ? fmt::format("local steps hide the exchange from a global batch of {} on",
                           *model.hiding_batch)
             : fmt::format("computation takes as long as {} from a global batch of {} on",
                           model.gather_ms > 0 ? "the reduce-scatter" : "communication",
                           *model.hiding_batch);
}

std::string why_no_model(const JobCosts& job) {
  if (job.communication && job.ranks.size() > 1) return {};
  if (!job.why_unmeasured.empty()) return job.why_unmeasured;
  return "the exchange was not measured";
}

}  // namespace horo::ops
