#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"
#include "ops/train/step_timer.h"

namespace horo::ops {

/// What a step came to; the same on all ranks, but for the times.
struct StepOutcome {
  float loss = 0;  ///< average over the global batch
  bool was_clipped = false;
  /// Not empty: a value was not finite, which this names, and nothing was updated.
  std::string why_skipped;
  /// What the phases took where the rank's own clock cannot see it, on a device.
  std::optional<StepTimes> times;
};

/// A rank's copy of a model with its optimizer, in the memory that it computes in. Used from one
/// thread. A step is one or more of run_pass(), with end_pass() between them, then end_step(). What
/// it gives a device to do is not waited for, so a step's outcome may come later.
class Replica {
 public:
  /// Told of each phase of a step that begins.
  using EnterPhase = std::function<void(Phase)>;

  virtual ~Replica() = default;

  /// Gives every rank the parameters, buffers and optimizer's state of rank 0; comes first.
  /// Collective.
  virtual void share_state() = 0;
  /// Forward and backward over a part of a step's samples. The loss and its gradient are divided by
  /// `normaliser`. The pass's samples are the batch's. Gradients travel as they come.
  virtual void run_pass(Batch batch, const Pass& pass, double normaliser) = 0;
  /// Keeps the gradients of a pass that is not its step's last.
  virtual void end_pass() = 0;
  /// Ends the exchange and updates the parameters, at `learning_rate` from now on, if it is set.
  virtual void end_step(std::optional<float> learning_rate) = 0;
  /// Of the oldest step not told yet, if it is known; with `wait` once it is. Nothing: all are
  /// told.
  virtual std::optional<StepOutcome> next_outcome(bool wait) = 0;
  /// How many samples of the batch, of at least one, the model gets right.
  virtual std::size_t count_correct(Batch batch) = 0;
  /// Averages statistics over the ranks, whose own batches let them drift apart. Collective.
  virtual void average_buffers() = 0;
  /// Brings parameters, buffers and the optimizer's state back to the model and optimizer it was
  /// made from.
  virtual void bring_back() = 0;
  virtual CompressionFigures compression() const = 0;
};

}  // namespace horo::ops
