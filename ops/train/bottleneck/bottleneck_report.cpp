#include "ops/train/bottleneck/bottleneck_report.h"

#include <fmt/core.h>

#include <utility>

#include "horo/base/text/log.h"
#include "ops/train/bottleneck/cost_collection.h"
#include "ops/train/bottleneck/report_html.h"
#include "ops/train/bottleneck/report_text.h"

namespace horo::ops {

BottleneckReport::BottleneckReport(const BottleneckReportOptions& options) : options_(options) {
  if (options.signal != 0) signal_.emplace(options.signal);
}

void BottleneckReport::start(TrainingRun& /*run*/) { process_.emplace(); }

StepRequests BottleneckReport::requests() {
  return {.report = signal_ && signal_->take() ? 1.0f : 0.0f};
}

void BottleneckReport::on_outcome(TrainingRun& /*run*/, std::uint64_t /*step*/,
                                  const StepOutcome& outcome) {
  is_due_ |= outcome.requests.report > 0;
}

// The steps before a report are not compared again: the time of the report counts to the last one.
void BottleneckReport::after_step(TrainingRun& run) {
  if (!std::exchange(is_due_, false)) return;
  make_report(run);
  print(run);
  first_step_ = run.timer.step_count();
}

void BottleneckReport::after_training(TrainingRun& run) {
  make_report(run);
  process_.reset();
}

void BottleneckReport::finish(TrainingRun& run, TrainReport& report) {
  print(run);
  report.bottlenecks = std::move(latest_);
}

void BottleneckReport::make_report(TrainingRun& run) {
  const horo::TraceScope pause = run.context.pause("report");
  JobCosts costs = collect_costs(run, *process_, first_step_);
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
