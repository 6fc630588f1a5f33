#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace horo::ops {

/// What order the samples of a data set are visited in.
struct SamplerOptions {
  std::size_t dataset_size = 0;
  /// Samples of one step over all ranks.
  std::size_t global_batch = 1;
  /// Another order for each seed.
  std::uint64_t seed = 0;
  /// A new order each epoch; false: the data set's own order, for evaluation.
  bool is_shuffled = true;
  /// Whether an epoch ends with a smaller step if the global batch does not divide the data set; if
  /// not, the samples left over are dropped (others in each epoch, when shuffled).
  bool keeps_partial_batch = false;
};

/// A place in training: `step` of `epoch`, both from 0.
struct EpochStep {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  friend bool operator==(const EpochStep&, const EpochStep&) = default;
};

/// Says which samples each rank takes in each step. The order is defined for the job as a whole:
/// step s of an epoch covers positions [s * global_batch, (s + 1) * global_batch) of the epoch's
/// permutation, and rank r takes the r-th contiguous part of them. So the same samples meet in the
/// same step whatever the number of ranks, and training resumes at any (epoch, step) without
/// replay.
///
/// If the samples of a step do not divide by the ranks, the first ranks take one more; a part may
/// be empty. Averages over ranks must then be weighted. Not changed after construction.
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

  /// Indices, in the data set, of the samples that this rank takes. Throws InvalidArgument if
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

 private:
  SamplerOptions options_;
  std::uint64_t rank_;
  std::uint64_t ranks_;
  std::uint64_t steps_per_epoch_;
};

}  // namespace horo::ops
