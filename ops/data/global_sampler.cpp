#include "ops/data/global_sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "horo/base/error.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

EpochPermutation::EpochPermutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size) {
  HORO_CHECK(size <= std::uint64_t{1} << 62, fmt::format("a permutation of {} is too large", size));
  const int bits = size > 1 ? std::bit_width(size - 1) : 1;
  half_bits_ = (bits + 1) / 2;
  RandomStream keys(combine_keys(seed, epoch));
  for (auto& key : round_keys_) key = keys.next();
}

// A Feistel network: every round is invertible whatever scramble() returns, so the whole is a
// permutation of the 2 * half_bits_ wide numbers.
std::uint64_t EpochPermutation::permute_bits(std::uint64_t word) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = word >> half_bits_;
  std::uint64_t right = word & mask;
  for (const auto key : round_keys_) {
    const std::uint64_t mixed = left ^ (scramble(right + key) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

// Cycle walking restricts the permutation to [0, size): it is applied again until the result is in
// range. The range of permute_bits() is at most four times `size`, so the loop ends after a few
// iterations on average. It always ends, because the cycle returns to `position`, which is in
// range. The permutation needs no table, so each rank computes only its own indices.
std::uint64_t EpochPermutation::operator[](std::uint64_t position) const {
  HORO_CHECK(position < size_, fmt::format("position {} of a permutation of {}", position, size_));
  std::uint64_t word = permute_bits(position);
  while (word >= size_) word = permute_bits(word);
  return word;
}

GlobalSampler::GlobalSampler(const SamplerOptions& options, int rank, int ranks)
    : options_(options),
      rank_(static_cast<std::uint64_t>(rank)),
      ranks_(static_cast<std::uint64_t>(ranks)) {
  HORO_CHECK(ranks > 0 && rank >= 0 && rank < ranks, fmt::format("rank {} of {}", rank, ranks));
  HORO_CHECK(options.global_batch > 0, "the global batch is 0; it must be at least 1");
  const std::size_t padding = options.keeps_partial_batch ? options.global_batch - 1 : 0;
  steps_per_epoch_ = (options.dataset_size + padding) / options.global_batch;
  HORO_CHECK(
      steps_per_epoch_ > 0,
      fmt::format("a global batch of {} leaves no step in a data set of {} samples; choose a "
                  "smaller global batch",
                  options.global_batch, options.dataset_size));
}

std::size_t GlobalSampler::global_count(std::uint64_t step) const {
  HORO_CHECK(step < steps_per_epoch_,
             fmt::format("step {} of an epoch of {} steps", step, steps_per_epoch_));
  return std::min(options_.global_batch, options_.dataset_size - step * options_.global_batch);
}

std::size_t GlobalSampler::local_count(std::uint64_t step) const {
  const std::size_t count = global_count(step);
  return count / ranks_ + (rank_ < count % ranks_ ? 1 : 0);
}

// A global batch is a run of positions in the permutation, and each rank takes consecutive
// positions of it. The set of samples in a step therefore does not depend on the number of ranks.
std::vector<std::uint64_t> GlobalSampler::samples(const EpochStep& where) const {
  const std::size_t global = global_count(where.step);
  const std::uint64_t first = where.step * options_.global_batch + rank_ * (global / ranks_) +
                              std::min<std::uint64_t>(rank_, global % ranks_);
  std::vector<std::uint64_t> indices(local_count(where.step));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = first + i;
  if (options_.is_shuffled) {
    const EpochPermutation permutation(options_.dataset_size, options_.seed, where.epoch);
    for (auto& index : indices) index = permutation[index];
  }
  return indices;
}

}  // namespace horo::ops
