#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ops/data/batch_shares.h"

namespace horo::ops {

/// A pseudo-random permutation of 0 ... size - 1 that depends only on (seed, epoch). It needs no
/// table: a lookup takes constant expected time and no memory, on any rank and in any order.
/// Immutable after construction.
///
/// A balanced Feistel network permutes the numbers of 2h bits, where
/// 2^2h is the smallest such power that is at least `size`. Results of `size` or more are permuted
/// again until one is below it (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
/// domains", 2002), fewer than four times on average.
class EpochPermutation {
 public:
  /// `size` may be 0: then every lookup throws.
  EpochPermutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  std::uint64_t size() const { return size_; }  ///< the number of samples
  /// The sample at `position`. Throws InvalidArgument unless position < size().
  std::uint64_t operator[](std::uint64_t position) const;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t permute_bits(std::uint64_t word) const;

  std::uint64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, kRounds> round_keys_{};
};

/// Draws samples with replacement, each with a probability proportional to its weight. The draw at
/// a position of an epoch depends only on (seed, epoch, position). Immutable after construction.
class WeightedDraw {
 public:
  /// `weights`: one per sample. Throws InvalidArgument, with the sample, for a weight that is
  /// negative or not finite, and if all weights are 0.
  explicit WeightedDraw(std::span<const double> weights);

  /// The number of samples.
  std::uint64_t size() const { return sums_.size(); }
  /// Takes O(log size()). Never returns a sample of weight 0.
  std::uint64_t draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position) const;
  /// A hash of the weights.
  std::uint64_t hash() const;

 private:
  std::vector<double> sums_;  // sums_[i]: of the weights of samples 0 to i
};

/// What happens at the end of an epoch if the global batch does not divide the data set.
enum class LastBatch {
  kDrop,     ///< the remaining samples are left out; with shuffling, others in each epoch
  kPartial,  ///< the last step has fewer samples, on some ranks perhaps none
  /// The last step is filled up with samples of the beginning of the epoch, which have the weight
  /// 0. All steps then have the same shapes.
  kPad,
};

/// The order in which the samples of a data set are visited.
struct SamplerOptions {
  std::size_t dataset_size = 0;  ///< samples
  /// Samples per step over all ranks.
  std::size_t global_batch = 1;
  /// Each seed gives another order.
  std::uint64_t seed = 0;
  /// A new order in each epoch; false: the order of the data set, for evaluation.
  bool is_shuffled = true;
  LastBatch last_batch = LastBatch::kDrop;  ///< what happens at the end of an epoch
  /// If set, an epoch consists of dataset_size draws instead of a permutation. Requires
  /// is_shuffled.
  std::shared_ptr<const WeightedDraw> weights{};
};

/// A position in training: `step` of `epoch`, both counted from 0.
struct EpochStep {
  std::uint64_t epoch = 0;  ///< from 0
  std::uint64_t step = 0;   ///< of the epoch, from 0
  /// Whether all members are equal.
  friend bool operator==(const EpochStep&, const EpochStep&) = default;
};

/// The number of samples that training has used: all of the epochs before `epoch`, and the first
/// `sample` positions of it. A checkpoint stores it. Independent of the number of ranks.
struct SamplePosition {
  std::uint64_t epoch = 0;   ///< from 0
  std::uint64_t sample = 0;  ///< position in the epoch, from 0
  /// Whether all members are equal.
  friend bool operator==(const SamplePosition&, const SamplePosition&) = default;
};

/// Assigns samples to ranks and steps. The order is defined for the whole job: step s of an epoch
/// covers positions [s * global_batch, (s + 1) * global_batch) of the epoch's permutation, and rank
/// r takes the r-th contiguous part of them. The samples of a step therefore do not depend on the
/// number of ranks, and training can resume at any (epoch, step) without replay.
///
/// The parts are equal, or divided by set_shares(). If the number of ranks does not divide the rows
/// of a step, the first ranks take one more; a part may be empty. Averages over ranks must then be
/// weighted: if each rank divides its sum over counted samples by global_count() / ranks, the
/// average over the ranks is exact. Thread-safe.
class GlobalSampler {
 public:
  /// Throws InvalidArgument for a rank outside 0 ... ranks - 1, a global batch of 0, or options
  /// that leave no step in an epoch or contradict each other.
  GlobalSampler(const SamplerOptions& options, int rank, int ranks);

  /// The options of the constructor.
  const SamplerOptions& options() const { return options_; }
  /// The number of steps of an epoch.
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Samples of step `step` over all ranks, without padding.
  std::size_t global_count(std::uint64_t step) const;
  /// Samples of a step on this rank, with padding.
  std::size_t local_count(const EpochStep& where) const;
  /// The largest local_count() with the parts of step 0.
  std::size_t largest_local_count() const;
  /// How many of the samples of a step on this rank, at the end, are padding.
  std::size_t local_padding(const EpochStep& where) const;

  /// Divides the steps from number `first` on, see locate(), by `shares`. No part of these steps
  /// may have been computed before. All ranks must make equal calls, with ascending `first`. Throws
  /// InvalidArgument for another number of ranks.
  void set_shares(std::uint64_t first, BatchShares shares);

  /// Indices in the data set of the samples of this rank, with padding. Throws InvalidArgument if
  /// where.step is not below steps_per_epoch().
  std::vector<std::uint64_t> samples(const EpochStep& where) const;

  /// Step number `count` of training, counted from 0 through all epochs.
  EpochStep locate(std::uint64_t count) const {
    return {count / steps_per_epoch_, count % steps_per_epoch_};
  }
  /// The inverse of locate().
  std::uint64_t count_of(const EpochStep& where) const {
    return where.epoch * steps_per_epoch_ + where.step;
  }

  /// The position before step number `count`.
  SamplePosition position(std::uint64_t count) const;
  /// The inverse of position(). Throws InvalidArgument if no step begins at `position`, because
  /// another global batch or data set was used there.
  std::uint64_t count_at(const SamplePosition& position) const;

 private:
  std::size_t row_count(std::uint64_t step) const;
  BatchShares::Part part_of(const EpochStep& where) const;

  SamplerOptions options_;
  int rank_;
  int ranks_;
  std::uint64_t steps_per_epoch_;
  mutable std::mutex mutex_;                                   // guards shares_
  std::vector<std::pair<std::uint64_t, BatchShares>> shares_;  // with the first step of each
};

}  // namespace horo::ops
