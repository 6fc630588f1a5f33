#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/nn/loss.h"
#include "ops/optim/learning_rate.h"
#include "ops/train/batch_balance.h"
#include "ops/train/callbacks/callback.h"
#include "ops/train/callbacks/profile_window.h"
#include "ops/train/progress_display.h"
#include "ops/train/step/train_step.h"
#include "ops/train/update/local_steps.h"

namespace horo::ops {

/// Options of a Trainer. Equal on all ranks, except `loader` and `progress`.
struct TrainerOptions {
  /// Passes over the training set. Has no effect if `steps` is set.
  std::uint64_t epochs = 1;
  /// Samples per step over all ranks; at least one per rank. Every sample has the same weight in
  /// the average.
  std::size_t global_batch = 128;
  /// The parts of the ranks; default: equal, up to one sample. For averaged gradients. `automatic`
  /// needs times of its own for each phase, which neither a graph nor batch normalisation over all
  /// ranks has.
  BatchShareOptions shares{};
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
  /// Steps that are profiled; default: none.
  ProfileOptions profile{};
  /// How rank 0 prints progress. Other ranks print none.
  ProgressOptions progress;
  /// Equal on all ranks: the same callbacks in the same order.
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
};

/// Throws InvalidArgument, one line, for options that contradict each other, or do not fit the data
/// sets or the number of ranks.
void check_options(const TrainerOptions& options, int ranks, const Dataset& train_set,
                   const Dataset& test_set);

/// The options that decide the steps, the collectives and the results: one line per option,
/// "epochs = 3".
std::vector<std::string> describe_options(const TrainerOptions& options, const Dataset& train_set,
                                          const Dataset& test_set);

}  // namespace horo::ops
