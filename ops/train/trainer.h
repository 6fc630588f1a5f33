#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/layer.h"
#include "ops/optim/learning_rate.h"
#include "ops/optim/optimizer.h"
#include "ops/train/control_message_count.h"
#include "ops/train/device_replica.h"
#include "ops/train/phase_marks.h"
#include "ops/train/progress_display.h"
#include "ops/train/replica.h"
#include "ops/train/step_timer.h"
#include "ops/train/train_report.h"

namespace horo::ops {

struct TrainerOptions {
  std::uint64_t epochs = 1;
  /// Samples per step over all ranks; at least one per rank. Ranks share it as evenly as it goes,
  /// and the average weighs every sample alike.
  std::size_t global_batch = 128;
  /// Ends training after this many steps, whatever the epochs; 0: no such limit.
  std::uint64_t max_steps = 0;
  /// How the learning rate goes over the steps of training; unset: it stays what the optimizer has.
  std::optional<LearningRateSchedule> learning_rate;
  /// How the ranks' gradients become one: kAverage, or kAdasum, which allows for more ranks or
  /// larger batches at one learning rate. Losses are averaged in any case.
  ReduceOp gradient_op = ReduceOp::kAverage;
  /// Of the order of samples and of random layers.
  std::uint64_t seed = 1;
  /// Samples per forward pass of an evaluation, over all ranks.
  std::size_t evaluation_batch = 1000;
  /// Evaluation sees the samples as they are, without loader.augmentation.
  DataLoaderOptions loader;
  /// Of the gradients; the loss is exact.
  Compression compression;
  /// Compute each step in this many passes over parts of the rank's samples: less memory for
  /// activations, the same batch and (but for rounding, and for layers that look at the samples
  /// together) the same results. Every part needs a sample.
  std::size_t accumulate = 1;
  /// See GradientSyncOptions::clip_norm.
  std::optional<double> clip_norm{};
  /// How many steps in a row may have gradients or losses that are not finite: such a step is
  /// skipped, on all ranks, and a line of progress names the source (on a device, which of the
  /// two). 0: none; training ends at the first loss that is not finite, on a device at the first
  /// such gradients too.
  std::uint64_t max_skipped = 0;
  /// Where the model computes; by default in host memory.
  DeviceTraining device{};
  /// Where rank 0 shows progress. Other ranks show none.
  ProgressOptions progress;
};

/// Trains a classifier on all ranks of a job, synchronously: every rank holds the same parameters,
/// takes its part of each global batch, and updates with the average gradient. Losses and
/// parameters do not depend on the number of ranks, but for the rounding of sums (and for layers
/// that look at the rank's batch as a whole, such as batch normalisation, and for another
/// gradient_op). Used from one thread.
class Trainer {
 public:
  /// Borrows all: they must outlive the trainer. `optimizer` updates the parameters of `model`; on
  /// a device it is an Sgd or an AdamW.
  /// Not collective. Throws InvalidArgument, on all ranks alike, for options that do not fit the
  /// data set or the number of ranks.
  Trainer(Context& context, Layer& model, Optimizer& optimizer, const Dataset& train_set,
          const Dataset& test_set, const TrainerOptions& options = {});

  /// Gives every rank the parameters, buffers and optimizer's state of rank 0, trains, and
  /// evaluates after each epoch. Collective. Throws Error on all ranks if the loss is not finite
  /// (on a device, or the gradients), if more than max_skipped steps in a row were to be skipped,
  /// or if parameters end up different between ranks; InvalidArgument for options that a device
  /// does not have; MismatchError if the models, optimizers, or options of the ranks differ, but
  /// for options.loader and options.progress.
  TrainReport run();

 private:
  std::unique_ptr<Replica> make_replica();
  void train_epochs(Replica& replica, TrainReport& report);
  void train_step(Batch batch, Replica& replica);
  void enter(Phase phase);
  void take(const StepOutcome& outcome, TrainReport& report);
  void note_skipped(std::uint64_t step, const std::string& why);
  void show_progress(std::uint64_t steps_done, float loss);
  void finish_epoch(const EpochStep& where, Replica& replica, TrainReport& report);
  void complete(Replica& replica, TrainReport& report);

  Context& context_;
  Layer& model_;
  Optimizer& optimizer_;
  const Dataset& train_set_;
  const Dataset& test_set_;
  const TrainerOptions options_;
  const GlobalSampler sampler_;
  const std::uint64_t total_steps_;
  StepTimer timer_;
  StepTimer device_timer_;  // of the phases that a device sees
  PhaseMarks marks_;
  ControlMessageCount control_messages_;
  ProgressDisplay display_;
  double training_ms_ = 0;
  std::uint64_t clipped_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
};

}  // namespace horo::ops
