#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"
#include "ops/train/step_timer.h"

namespace horo::ops {

/// The result of a step. All ranks have the same result, except for the times.
struct StepOutcome {
  float loss = 0;  ///< average over the global batch
  bool was_clipped = false;
  /// Names the value that was not finite if the step was skipped; otherwise empty.
  std::string why_skipped;
  /// Durations of the phases on a device, which the clock of the host cannot measure.
  std::optional<StepTimes> times;
};

/// The copy of the model and its optimizer that a rank trains, in host or device memory. Used from
/// one thread. A step is begin_step(), one or more run_pass() with end_pass() between them, then
/// end_step(). Work
/// on a device is asynchronous, so the outcome of a step may be known later.
class Replica {
 public:
  /// Called at the begin of each phase of a step.
  using EnterPhase = std::function<void(StepPhase)>;

  virtual ~Replica() = default;

  /// Broadcasts the parameters, buffers and optimizer state of rank 0. Must be called first.
  /// Collective.
  virtual void share_state() = 0;
  /// Sets the number of the step and, if one is given, the learning rate.
  virtual void begin_step(std::uint64_t step, std::optional<float> learning_rate) = 0;
  /// Runs forward and backward on a part of the samples of a step. The loss and its gradient are
  /// divided by `normaliser`. pass.samples is set from the batch. The exchange of a bucket starts
  /// as soon as its gradients are ready.
  virtual void run_pass(Batch batch, const Pass& pass, double normaliser) = 0;
  /// Adds the gradients of a pass that is not the last of its step to the sum.
  virtual void end_pass() = 0;
  /// Completes the exchange and updates the parameters.
  virtual void end_step() = 0;
  /// The outcome of the oldest step that has not been returned. Without `wait`: nothing if it is
  /// not known yet. With `wait`: blocks until it is known; nothing if all have been returned.
  virtual std::optional<StepOutcome> next_outcome(bool wait) = 0;
  /// The number of correctly classified samples of a batch of at least one sample.
  virtual std::size_t count_correct(Batch batch) = 0;
  /// Averages the running statistics over the ranks, which differ since every rank has its own
  /// batches. Collective.
  virtual void average_buffers() = 0;
  /// Copies parameters, buffers and optimizer state back to the model and optimizer of the
  /// constructor.
  virtual void bring_back() = 0;
  virtual CompressionFigures compression() const = 0;
};

}  // namespace horo::ops
