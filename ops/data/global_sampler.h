#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

  std::uint64_t size() const { return size_; }
  /// The sample at `position`. Throws InvalidArgument unless position < size().
  std::uint64_t operator[](std::uint64_t position) const;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t permute_bits(std::uint64_t word) const;

  std::uint64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, kRounds> round_keys_{};
};

/// The order in which the samples of a data set are visited.
struct SamplerOptions {
  std::size_t dataset_size = 0;
  /// Samples per step over all ranks.
  std::size_t global_batch = 1;
  /// Each seed gives another order.
  std::uint64_t seed = 0;
  /// A new order in each epoch; false: the order of the data set, for evaluation.
  bool is_shuffled = true;
  /// Whether the last step of an epoch is smaller if the global batch does not divide the data set.
  /// Otherwise the remaining samples are dropped; with shuffling these differ in each epoch.
  bool keeps_partial_batch = false;
};

/// A position in training: `step` of `epoch`, both counted from 0.
struct EpochStep {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  friend bool operator==(const EpochStep&, const EpochStep&) = default;
};

/// Assigns samples to ranks and steps. The order is defined for the whole job: step s of an epoch
/// covers positions [s * global_batch, (s + 1) * global_batch) of the epoch's permutation, and rank
/// r takes the r-th contiguous part of them. The samples of a step therefore do not depend on the
/// number of ranks, and training can resume at any (epoch, step) without replay.
///
/// If the number of
/// ranks does not divide the samples of a step, the first ranks take one more; a part may be empty.
/// Averages over ranks must then be weighted. Immutable after construction.
class GlobalSampler {
 public:
  /// Throws InvalidArgument for a rank outside 0 ... ranks - 1, a global batch of 0, or options
  /// that leave no step in an epoch.
  GlobalSampler(const SamplerOptions& options, int rank, int ranks);

  const SamplerOptions& options() const { return options_; }
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Samples of step `step` over all ranks.
  std::size_t global_count(std::uint64_t step) const;
  /// Samples of step `step` on this rank.
  std::size_t local_count(std::uint64_t step) const;

  /// Indices in the data set of the samples of this rank. Throws InvalidArgument if where.step is
  /// not below steps_per_epoch().
  std::vector<std::uint64_t> samples(const EpochStep& where) const;

  /// Step number `count` of training, counted from 0 through all epochs.
  EpochStep locate(std::uint64_t count) const {
    return {count / steps_per_epoch_, count % steps_per_epoch_};
  }
  /// The inverse of locate().
  std::uint64_t count_of(const EpochStep& where) const {
    return where.epoch * steps_per_epoch_ + where.step;
  }

 private:
  SamplerOptions options_;
  std::uint64_t rank_;
  std::uint64_t ranks_;
  std::uint64_t steps_per_epoch_;
};

}  // namespace horo::ops
