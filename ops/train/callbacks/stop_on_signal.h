#pragma once

#include <csignal>
#include <cstdint>
#include <vector>

#include "ops/train/callbacks/callback.h"
#include "ops/train/callbacks/signal_watch.h"

namespace horo::ops {

/// Ends training in order after a signal to any rank: all ranks complete the same step and return
/// from Trainer::run(), so that a program can save its state and exit with 0. Later signals have no
/// further effect. Handles the signals for the whole process while an object exists; if several
/// objects handle the same signal, all of them request the stop.
class StopOnSignal : public TrainerCallback {
 public:
  /// Throws InvalidArgument for a number that is not a signal, or a signal that cannot be handled.
  explicit StopOnSignal(const std::vector<int>& signals = {SIGTERM});

  StepRequests requests() override;
  void on_outcome(TrainingRun& run, std::uint64_t step, const StepOutcome& outcome) override;

 private:
  std::vector<SignalWatch> signals_;
  bool is_reported_ = false;
};

}  // namespace horo::ops
