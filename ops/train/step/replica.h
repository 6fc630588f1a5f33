#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "horo/horo.h"
#include "ops/train/step/batch_upload.h"
#include "ops/train/step/graphed_steps.h"
#include "ops/train/step/pinned_pool.h"
#include "ops/train/step/steps_in_flight.h"
#include "ops/train/step/train_step.h"

namespace horo::ops {

/// The copy of the model and its optimizer that a rank trains, in host memory or on a device, and
/// the outcomes of its steps. A step is begin_step(), one or more run_pass() with end_pass()
/// between them, then end_step(). On a device, the host waits only in next_outcome() with `wait`,
/// in score(), and when it is several steps ahead. Used from one thread.
class Replica {
 public:
  /// Called at the begin of each phase of a step.
  using EnterPhase = std::function<void(StepPhase)>;

  /// Broadcasts the parameters, buffers and optimizer state of rank 0, and makes a TrainStep.
  /// Collective. Borrows all arguments. Throws as TrainStep does. In host memory with
  /// options.check_finite, and always on a device, a step with a non-finite value updates nothing.
  Replica(Context& context, Layer& model, Optimizer& optimizer, const Loss& loss,
          const DeviceTraining& training, const ExchangeOptions& options, EnterPhase enter);
  /// Blocks until the device is done.
  ~Replica() { step_.finish(); }

  /// Returns `options` for a loader of batches that this object uploads. This object must outlive
  /// the loader.
  DataLoaderOptions for_upload(DataLoaderOptions options);
  /// Sets the number of the step, the learning rate if one is given, and what this rank requests.
  void begin_step(std::uint64_t step, std::optional<float> learning_rate,
                  const StepRequests& requests = {});
  /// Runs forward and backward on a part of the samples of a step. The loss and its gradient are
  /// divided by `samples`, the same number on all ranks; see Loss::backward(). The exchange of a
  /// bucket starts as soon as its gradients are ready. With DeviceTraining::graph, may submit the
  /// whole step, with its exchange and update.
  void run_pass(Batch batch, const Pass& pass, double samples);
  /// Adds the gradients of a pass that is not the last of its step to the sum.
  void end_pass() { step_.end_pass(); }
  /// Completes the exchange and updates the parameters.
  void end_step();
  /// The outcome of the oldest step that has not been returned. Without `wait`: nothing if it is
  /// not known yet. With `wait`: blocks until it is known; nothing if all have been returned.
  std::optional<StepOutcome> next_outcome(bool wait);
  /// Compares the model's output for a batch of at least one sample with the targets: the sum of
  /// the losses, in host memory. Blocks.
  BatchScore score(Batch batch);
  /// Averages the running statistics over the ranks, which differ since every rank has its own
  /// batches. Collective. Call it before score().
  void average_buffers();
  /// Moves parameters, buffers and optimizer state back to host memory. No other member may be
  /// called afterwards, except compression().
  void bring_back();
  CompressionFigures compression();
  GradientSync& sync() { return step_.sync(); }
  /// Null: that of TrainStep.
  UpdateMethod* method() const { return step_.method(); }
  TrainStep& step() { return step_; }

 private:
  using Mark = StepsInFlight::Mark;
  void enter(StepPhase phase, Mark mark);
  Batch in_memory(Batch batch);
  StepOutcome host_outcome();

  Context& context_;
  const EnterPhase enter_;
  TrainStep step_;
  bool is_first_pass_ = true;
  // On a device only.
  std::optional<PinnedPool> pinned_;
  std::optional<BatchUpload> upload_;
  std::optional<StepsInFlight> in_flight_;
  std::optional<GraphedSteps> graphs_;  // with DeviceTraining::graph
  bool is_in_graph_ = false;            // the exchange and the update of the current step
  device::Memory score_;                // pinned
  std::deque<StepOutcome> outcomes_;    // that next_outcome() has not returned yet
};

}  // namespace horo::ops
