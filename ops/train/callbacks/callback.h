#pragma once

#include <cstdint>
#include <string>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/data/global_sampler.h"
#include "ops/nn/layer.h"
#include "ops/optim/optimizer.h"
#include "ops/train/evaluation.h"
#include "ops/train/progress_display.h"
#include "ops/train/step/loss_scaling.h"
#include "ops/train/step/step_timer.h"
#include "ops/train/step/steps_in_flight.h"
#include "ops/train/train_report.h"
#include "ops/train/update/update_method.h"

namespace horo::ops {

struct TrainerOptions;

/// A run of a Trainer, as its callbacks see it. The trainer owns all referenced objects.
struct TrainingRun {
  Context& context;               ///< the job
  Layer& model;                   ///< what is trained
  Optimizer& optimizer;           ///< of the model
  const GlobalSampler& sampler;   ///< of the training samples
  ProgressDisplay& display;       ///< prints on rank 0 only
  const TrainerOptions& options;  ///< of the trainer
  const StepTimer& timer;         ///< the steps of this run, as the host measures them
  const StepTimer& device_timer;  ///< without steps in host memory
  /// Steps since the begin of epoch 0, including those of an earlier run from which this one
  /// resumed. On a device, the last of them may still be in flight.
  std::uint64_t steps = 0;
  std::uint64_t total_steps = 0;  ///< at which training ends
  /// Exchanges the gradients. Null in restore().
  GradientSync* sync = nullptr;
  /// What updates the parameters in place of the average gradient. Null: nothing, or in restore().
  UpdateMethod* method = nullptr;
  /// In after_step(): whether no step follows, of this run.
  bool is_ending = false;
  /// Computes the steps. Null in restore(), and not to be used in finish().
  TrainStep* step = nullptr;
  /// Loads the training samples. Null in restore(), start() and finish().
  const DataLoader* loader = nullptr;
  /// Null without a loss scale. restore() may set its state on rank 0.
  LossScaling* loss_scaling = nullptr;
};

/// Takes part in the run of a Trainer, which calls the functions on every rank, in the order of
/// TrainerOptions::callbacks, from the thread of run(). All functions except requests() may call
/// collective operations, so all ranks must have equal callbacks in the same order. An exception
/// ends training.
///
/// On a device, between restore() and finish(), `model` and `optimizer` are in its memory. Work
/// that the functions submit to the stream of model.backend() is executed after the steps so far.
/// Do not wait for the stream unless the values are needed.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;
  /// The phase of a step to which the time of after_step() counts: kLogging, or kCheckpoint for
  /// callbacks that save state.
  virtual StepPhase phase() const { return StepPhase::kLogging; }
  /// Called before training. The model is in host memory, and rank 0's state has not been
  /// broadcast. May restore the state of rank 0 and set run.steps, to the same number on all ranks.
  virtual void restore(TrainingRun& /*run*/) {}
  /// Called before the first step. All ranks have the state of rank 0, in the memory in which they
  /// train.
  virtual void start(TrainingRun& /*run*/) {}
  /// What this rank requests in the next step. Not collective: the trainer combines the requests of
  /// all callbacks and ranks.
  virtual StepRequests requests() { return {}; }
  /// Called when the result of step number `step`, counted from 1, is known: in host memory before
  /// after_step(), on a device several steps later. The result is the same on all ranks, except for
  /// the times.
  virtual void on_outcome(TrainingRun& /*run*/, std::uint64_t /*step*/,
                          const StepOutcome& /*outcome*/) {}
  /// Called after an evaluation, which has the same result on all ranks. Returns true to end
  /// training; the answer must be the same on all ranks.
  virtual bool after_evaluation(TrainingRun& /*run*/, const Evaluation& /*evaluation*/) {
    return false;
  }
  /// Called after the update of a step, on a device after its submission, and after the evaluation
  /// that follows the step, if any. run.steps includes the step.
  virtual void after_step(TrainingRun& /*run*/) {}
  /// Called after the last step and evaluation, before the model moves back to host memory.
  virtual void after_training(TrainingRun& /*run*/) {}
  /// What a checkpoint keeps of this object, as printable text: equal on all ranks. Not collective.
  virtual std::string state() const { return {}; }
  /// Called after restore() of the callback that resumes training, if state() was not empty.
  virtual void set_state(const std::string& /*state*/) {}
  /// Called after the last step and evaluation. The model is in host memory again.
  virtual void finish(TrainingRun& /*run*/, TrainReport& /*report*/) {}
};

}  // namespace horo::ops
