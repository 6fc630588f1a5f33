#include "ops/train/bottleneck/bottleneck_report.h"

#include <fmt/core.h>

#include <utility>

#include "horo/base/text/log.h"
#include "horo/device/gpu.h"
#include "ops/train/bottleneck/cost_collection.h"
#include "ops/train/bottleneck/report_html.h"
#include "ops/train/bottleneck/report_text.h"

namespace horo::ops {

BottleneckReport::BottleneckReport(const BottleneckReportOptions& options) : options_(options) {
  if (options.signal != 0) signal_.emplace(options.signal);
}

void BottleneckReport::start(TrainingRun& run) {
  process_.emplace();
  DeviceBackend* const backend = run.step->device_backend();
  device_.emplace(backend == nullptr ? std::string() : device::gpu_address(backend->device()),
                  options_.device);
}

StepRequests BottleneckReport::requests() {
  return {.report = signal_ && signal_->take() ? 1.0f : 0.0f};
}

void BottleneckReport::on_outcome(TrainingRun& /*run*/, std::uint64_t /*step*/,
                                  const StepOutcome& outcome) {
  is_due_ |= outcome.requests.report > 0;
  // In the first step, libraries choose and load their kernels.
  if (++outcomes_ == 1 || !outcome.launch) return;
  ++launch_count_;
  launch_sum_.host_ms += outcome.launch->host_ms;
  launch_sum_.caught_up += outcome.launch->was_caught_up ? 1 : 0;
}

std::optional<LaunchCosts> BottleneckReport::launches() const {
  if (launch_count_ == 0) return std::nullopt;
  const auto count = static_cast<double>(launch_count_);
  return LaunchCosts{launch_sum_.host_ms / count, launch_sum_.caught_up / count};
}

// The steps before a report are not compared again: the time of the report counts to the last one.
void BottleneckReport::after_step(TrainingRun& run) {
  if (!std::exchange(is_due_, false)) return;
  make_report(run);
  print(run);
  first_step_ = run.timer.step_count();
  launch_count_ = 0;
  launch_sum_ = {};
}

void BottleneckReport::after_training(TrainingRun& run) {
  make_report(run);
  process_.reset();
  device_.reset();
}

void BottleneckReport::finish(TrainingRun& run, TrainReport& report) {
  print(run);
  report.bottlenecks = std::move(latest_);
}

void BottleneckReport::make_report(TrainingRun& run) {
  const horo::TraceScope pause = run.context.pause("report");
  JobCosts costs = collect_costs(run, {.process = *process_,
                                       .device = *device_,
                                       .launches = launches(),
                                       .first_step = first_step_});
  Diagnosis diagnosis = diagnose(costs);
  latest_ = JobBottlenecks{std::move(costs), std::move(diagnosis)};
}

void BottleneckReport::print(TrainingRun& run) const {
  if (run.context.rank() != 0 || !latest_) return;
  if (options_.text != nullptr) {
    fmt::print(options_.text, "{}", report_text(latest_->costs, latest_->diagnosis));
    std::fflush(options_.text);
  }
  try {
    if (!options_.html.empty()) write_html(*latest_, options_.html);
  } catch (const Error& error) {
    log_warning("{}; the bottleneck report has no page", error.what());
  }
}

}  // namespace horo::ops
