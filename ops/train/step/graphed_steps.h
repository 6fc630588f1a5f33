#pragma once

#include <optional>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/train/step/train_step.h"

namespace horo::ops {

/// Runs steps of one pass on a device as a graph: the host submits one launch in place of every
/// kernel. All ranks must make the same calls with the same `samples`. Used from one thread.
class GraphedSteps {
 public:
  /// Plain steps before the first capture. In these, the ranks connect and libraries choose and
  /// load their kernels, which a capture cannot do.
  static constexpr int kPlainSteps = 3;

  /// `step` trains on a device and must outlive this object.
  explicit GraphedSteps(TrainStep& step) : step_(step) {}

  /// Whether a step with these `samples` (see Loss::backward()) is to be run by run(). If not, run
  /// a plain step: the result changes after a few of them. Batches with equal `samples` must have
  /// equal shapes and padding.
  bool is_next(double samples);
  /// Submits a whole step: forward, backward, exchange and update. The first call captures it.
  /// Throws as GradientSync::capture() and StepGraph::launch() do.
  void run(const Batch& batch, const Pass& pass, double samples);
  /// Destroys the graph. Call before memory of the model is freed or replaced. One plain step must
  /// precede the next capture.
  void discard();

 private:
  struct Graph {
    double samples;
    Batch batch;  // the memory that the graph reads
    StepGraph step;
  };
  void capture(const Batch& batch, const Pass& pass, double samples);

  TrainStep& step_;
  int plain_steps_ = kPlainSteps;  // before the next capture
  double most_samples_ = 0;
  std::optional<Graph> graph_;
};

}  // namespace horo::ops
