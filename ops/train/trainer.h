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
#include "ops/train/callback.h"
#include "ops/train/local_steps.h"
#include "ops/train/progress_display.h"
#include "ops/train/replica.h"
#include "ops/train/step_timer.h"
#include "ops/train/train_report.h"

namespace horo::ops {

struct TrainerOptions {
  /// Passes over the training set. Has no effect if `steps` is set.
  std::uint64_t epochs = 1;
  /// Samples per step over all ranks; at least one per rank. Ranks get equal parts, up to one
  /// sample, and every sample has the same weight in the average.
  std::size_t global_batch = 128;
  /// Trains for this many steps, whatever the number of epochs; 0: for `epochs`.
  std::uint64_t steps = 0;
  /// A new order of the samples in each epoch; false: the order of the data set.
  bool is_shuffled = true;
  /// Draws the samples of an epoch by weight, see SamplerOptions.
  std::shared_ptr<const WeightedDraw> sample_weights{};
  /// What happens to the samples that do not fill the last step of an epoch: kDrop, or kPad, with
  /// which every sample has the same weight in the average of its step. Layers that combine samples
  /// (batch normalisation) see the padding.
  LastBatch last_batch = LastBatch::kDrop;
  /// Learning rate by step; unset: the constant rate of the optimizer.
  std::optional<LearningRateSchedule> learning_rate;
  /// How the gradients of the ranks are combined: kAverage, or kAdasum, which tolerates more ranks
  /// or larger batches at the same learning rate. Losses are always averaged.
  ReduceOp gradient_op = ReduceOp::kAverage;
  /// Seed of the sample order and of random layers.
  std::uint64_t seed = 1;
  /// Steps between evaluations; 0: after each epoch. Training ends with an evaluation in any case,
  /// unless a callback or a request has stopped it.
  std::uint64_t evaluate_every = 0;
  /// Samples per forward pass of an evaluation over all ranks.
  std::size_t evaluation_batch = 1000;
  /// Evaluation does not apply loader.augmentation.
  DataLoaderOptions loader;
  /// Compression of the gradients; the loss is not compressed.
  Compression compression;
  /// See GradientSyncOptions::wire. The loss is exchanged in float32.
  std::optional<DataType> wire{};
  /// Passes per step, each over a part of the samples of the rank. More passes need less memory for
  /// activations and give the same results, except for rounding and for layers that combine
  /// samples, such as batch normalisation. Every part needs at least one sample.
  std::size_t accumulate = 1;
  /// See GradientSyncOptions::clip_norm.
  std::optional<double> clip_norm{};
  /// Consecutive steps that may have non-finite gradients or losses. All ranks skip such a step,
  /// and a progress line names the cause. With 0, training fails at the first non-finite loss; on a
  /// device also at the first non-finite gradient.
  std::uint64_t max_skipped = 0;
  /// Each rank keeps the state of the optimizer for its share of the parameters only, which saves
  /// (n-1)/n of that memory with n ranks; see ShardedUpdate. In host memory, for optimizers that
  /// update each value by itself (Sgd, AdamW), without compression, wire type and Adasum.
  bool shard_optimizer = false;
  /// Ranks take several steps between exchanges, for slow links: local_sgd() or diloco(), see
  /// LocalSteps. `compression` and `wire` then apply to the exchanged changes, and `clip_norm` to
  /// the gradients of a rank. Outcomes, and with them requests to stop, become known when the next
  /// exchange ends. In host memory, without shard_optimizer and Adasum.
  LocalSteps local_steps{};
  /// Compares outputs with targets. Ranks must have equal losses.
  std::shared_ptr<const Loss> loss = std::make_shared<CrossEntropy>();
  /// Where the model computes; default: host memory.
  DeviceTraining device{};
  /// How rank 0 prints progress. Other ranks print none.
  ProgressOptions progress;
  /// Equal on all ranks: the same callbacks in the same order.
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
};

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
  const GlobalSampler sampler_;
  const GlobalSampler test_sampler_;
  ProgressDisplay display_;
  TrainingRun run_;
  std::uint64_t first_step_ = 0;  // of this run
  std::uint64_t outcomes_ = 0;    // steps of epoch 0 and later whose outcome is known
  bool is_stopped_ = false;
  StepTimer timer_;
  StepTimer device_timer_;  // phases measured by a device
  PhaseScopes phase_scopes_;
  ControlMessageCount control_messages_;
  double training_ms_ = 0;
  std::uint64_t clipped_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
};

}  // namespace horo::ops
