#pragma once

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "ops/train/bottleneck/device_meter.h"
#include "ops/train/bottleneck/process_meter.h"
#include "ops/train/callbacks/callback.h"
#include "ops/train/callbacks/signal_watch.h"

namespace horo::ops {

struct BottleneckReportOptions {
  /// Where rank 0 prints the report; null: nowhere. Not owned.
  std::FILE* text = stdout;
  /// Where rank 0 writes the report as an HTML page, replacing it; empty: nowhere. A page that
  /// cannot be written is a warning.
  std::filesystem::path html{};
  /// Also makes a report during training after this signal to any rank; 0: none. mpirun and
  /// hororun pass SIGUSR1 on to the ranks.
  int signal = SIGUSR1;
  DeviceMeterOptions device{};
};

/// Reports what makes the steps of a run long: where the time of each rank went, how fast memory
/// and links are, a model of the step for other numbers of ranks, and recommendations. At the end
/// of training and after a signal. A report takes about half a second, in which ranks exchange and
/// copy memory. Training computes the same values with and without this object.
///
/// Equal options on all ranks. Used by one Trainer.
class BottleneckReport : public TrainerCallback {
 public:
  explicit BottleneckReport(const BottleneckReportOptions& options = {});

  void start(TrainingRun& run) override;
  StepRequests requests() override;
  void on_outcome(TrainingRun& run, std::uint64_t step, const StepOutcome& outcome) override;
  void after_step(TrainingRun& run) override;
  void after_training(TrainingRun& run) override;
  void finish(TrainingRun& run, TrainReport& report) override;

 private:
  void make_report(TrainingRun& run);
  void print(TrainingRun& run) const;
  std::optional<LaunchCosts> launches() const;

  const BottleneckReportOptions options_;
  std::optional<SignalWatch> signal_;
  std::optional<ProcessMeter> process_;
  std::optional<DeviceMeter> device_;
  bool is_due_ = false;           // by a request of any rank
  std::size_t first_step_ = 1;    // of the timer, from which steps are compared
  std::size_t outcomes_ = 0;      // of this run
  std::size_t launch_count_ = 0;  // since the previous report
  LaunchCosts launch_sum_;
  std::optional<JobBottlenecks> latest_;
};

}  // namespace horo::ops
