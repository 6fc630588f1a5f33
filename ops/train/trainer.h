#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"
#include "ops/optim/optimizer.h"
#include "ops/train/batch_balance.h"
#include "ops/train/callbacks/callback.h"
#include "ops/train/progress_display.h"
#include "ops/train/step/replica.h"
#include "ops/train/step/step_timer.h"
#include "ops/train/train_report.h"
#include "ops/train/trainer_options.h"

namespace horo::ops {

/// Trains a model synchronously on all ranks of a job. Every rank has the same parameters,
/// computes with its part of each global batch, and updates with the average gradient. Losses and
/// parameters do not depend on the number of ranks, except for rounding, for layers that combine
/// the samples of a rank (batch normalisation), and for another gradient_op. With local_steps, the
/// parameters of the ranks differ between exchanges, and results depend on the number of ranks.
/// Used from one thread.
class Trainer {
 public:
  /// Borrows all arguments; they must outlive the trainer. `optimizer` updates the parameters of
  /// `model`; on a device it must be an Sgd or an AdamW. Not collective. Throws InvalidArgument on
  /// all ranks for options that do not fit the data set or the number of ranks.
  Trainer(Context& context, Layer& model, Optimizer& optimizer, const Dataset& train_set,
          const Dataset& test_set, const TrainerOptions& options = {});

  /// Broadcasts the parameters, buffers and optimizer state of rank 0, trains, and evaluates after
  /// each epoch. Ends early if a rank requests it (StepRequests::stop) or a callback does.
  /// Collective. Throws on all ranks: Error if the loss (on a device also a gradient)
  /// is not finite, if more than max_skipped consecutive steps would be skipped, or if the final
  /// parameters differ between ranks; InvalidArgument for options that a device does not support;
  /// MismatchError if models, optimizers or options differ between ranks, except options.loader and
  /// options.progress.
  TrainReport run();

 private:
  void train_steps(Replica& replica, TrainReport& report);
  void train_step(Batch batch, Replica& replica);
  bool is_evaluated_after(std::uint64_t steps) const;
  StepRequests requests();
  void enter(StepPhase phase);
  void take(const StepOutcome& outcome, TrainReport& report);
  void judge(std::uint64_t step, const StepOutcome& outcome);
  void note_skipped(std::uint64_t step, const std::string& why);
  void show_progress(std::uint64_t steps_done, float loss);
  DataLoaderOptions evaluation_loader_options(Replica& replica) const;
  void evaluate_model(Replica& replica, DataLoader& test_loader, TrainReport& report);
  void complete(Replica& replica, TrainReport& report);

  Context& context_;
  Layer& model_;
  Optimizer& optimizer_;
  const Dataset& train_set_;
  const Dataset& test_set_;
  const TrainerOptions options_;
  GlobalSampler sampler_;
  GlobalSampler test_sampler_;
  BatchBalance balance_;
  ProgressDisplay display_;
  std::optional<LossScaling> loss_scaling_;  // in float16
  TrainingRun run_;
  std::uint64_t first_step_ = 0;  // of this run
  std::uint64_t outcomes_ = 0;    // steps of epoch 0 and later whose outcome is known
  bool is_stopped_ = false;
  ProfileWindow profile_;
  StepTimer timer_;
  StepTimer device_timer_;  // phases measured by a device
  PhaseScopes phase_scopes_;
  ControlMessageCount control_messages_;
  std::uint64_t clipped_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
};

}  // namespace horo::ops
