#pragma once

#include <cstddef>
#include <limits>

#include "ops/train/callbacks/callback.h"

namespace horo::ops {

/// The options of EarlyStop.
struct EarlyStopOptions {
  /// Evaluations without improvement after which training ends; at least 1.
  std::size_t patience = 3;
  /// A smaller decrease of the test loss than this is not an improvement; at least 0.
  double min_decrease = 0;
};

/// Ends training when the test loss no longer decreases. The loss is reduced over the ranks, so all
/// ranks end at the same step.
class EarlyStop : public TrainerCallback {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit EarlyStop(const EarlyStopOptions& options = {});
  bool after_evaluation(TrainingRun& run, const Evaluation& evaluation) override;
  std::string state() const override;
  void set_state(const std::string& state) override;

 private:
  const EarlyStopOptions options_;
  double best_ = std::numeric_limits<double>::infinity();
  std::size_t without_improvement_ = 0;
};

}  // namespace horo::ops
