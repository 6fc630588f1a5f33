#include "ops/data/global_sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "horo/base/error.h"
#include "horo/base/hash.h"
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

WeightedDraw::WeightedDraw(std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    HORO_CHECK(
        weights[i] >= 0 && std::isfinite(weights[i]),
        fmt::format("the weight of sample {} is {}; must be finite and at least 0", i, weights[i]));
    sums_.push_back(sum += weights[i]);
  }
  HORO_CHECK(sum > 0 && std::isfinite(sum),
             fmt::format("the weights of {} samples have the sum {}; must be finite and above 0",
                         weights.size(), sum));
}

// Inversion: the first sample whose sum is above a uniform number in [0, total). The minimum covers
// a product that is rounded up to the total.
std::uint64_t WeightedDraw::draw(std::uint64_t seed, std::uint64_t epoch,
                                 std::uint64_t position) const {
  RandomStream random(combine_keys(combine_keys(seed, epoch), position));
  const double uniform = static_cast<double>(random.next() >> 11) * 0x1p-53;
  const auto above = std::ranges::upper_bound(sums_, uniform * sums_.back());
  const auto last = std::ranges::lower_bound(sums_, sums_.back());
  return static_cast<std::uint64_t>(std::min(above, last) - sums_.begin());
}

std::uint64_t WeightedDraw::hash() const {
  return hash_contents(sums_.data(), sums_.size() * sizeof(double));
}

GlobalSampler::GlobalSampler(const SamplerOptions& options, int rank, int ranks)
    : options_(options), rank_(rank), ranks_(ranks) {
  HORO_CHECK(ranks > 0 && rank >= 0 && rank < ranks, fmt::format("rank {} of {}", rank, ranks));
  shares_.emplace_back(0, BatchShares(ranks));
  HORO_CHECK(options.global_batch > 0, "the global batch is 0; it must be at least 1");
  HORO_CHECK(!options.weights || options.is_shuffled,
             "samples are drawn by weight, so the order must be shuffled");
  HORO_CHECK(!options.weights || options.weights->size() == options.dataset_size,
             fmt::format("{} weights for a data set of {} samples; give one weight per sample",
                         options.weights->size(), options.dataset_size));
  const std::size_t more = options.last_batch == LastBatch::kDrop ? 0 : options.global_batch - 1;
  steps_per_epoch_ = (options.dataset_size + more) / options.global_batch;
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

// Over all ranks, with padding.
std::size_t GlobalSampler::row_count(std::uint64_t step) const {
  const std::size_t count = global_count(step);
  return options_.last_batch == LastBatch::kPad ? options_.global_batch : count;
}

// The steps are few between two calls of set_shares(), so the search begins with the latest one.
BatchShares::Part GlobalSampler::part_of(const EpochStep& where) const {
  const std::size_t rows = row_count(where.step);
  const std::lock_guard lock(mutex_);
  auto shares = shares_.rbegin();
  while (shares->first > count_of(where) && std::next(shares) != shares_.rend()) ++shares;
  return shares->second.part(rank_, rows);
}

// A loader that reads ahead needs the shares before the latest call, but none before those.
void GlobalSampler::set_shares(std::uint64_t first, BatchShares shares) {
  HORO_CHECK(shares.ranks() == static_cast<std::size_t>(ranks_),
             fmt::format("{} batch weights for {} ranks; give one weight per rank", shares.ranks(),
                         ranks_));
  constexpr std::size_t kMostShares = 4;
  const std::lock_guard lock(mutex_);
  HORO_CHECK(first >= shares_.back().first,
             fmt::format("batch shares from step {} follow those from step {}; the steps must "
                         "ascend",
                         first, shares_.back().first));
  shares_.emplace_back(first, std::move(shares));
  if (shares_.size() > kMostShares) shares_.erase(shares_.begin());
}

std::size_t GlobalSampler::local_count(const EpochStep& where) const {
  return part_of(where).count;
}

std::size_t GlobalSampler::largest_local_count() const { return local_count({}); }

std::size_t GlobalSampler::local_padding(const EpochStep& where) const {
  const BatchShares::Part part = part_of(where);
  const std::uint64_t end = part.first + part.count;
  return end - std::clamp<std::uint64_t>(global_count(where.step), part.first, end);
}

// A global batch is a run of positions in the order of the epoch, and each rank takes consecutive
// positions of it. The set of samples in a step therefore does not depend on the number of ranks.
std::vector<std::uint64_t> GlobalSampler::samples(const EpochStep& where) const {
  const BatchShares::Part part = part_of(where);
  const std::uint64_t first = where.step * options_.global_batch + part.first;
  std::vector<std::uint64_t> indices(part.count);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = (first + i) % options_.dataset_size;
  if (options_.weights) {
    for (auto& index : indices) index = options_.weights->draw(options_.seed, where.epoch, index);
  } else if (options_.is_shuffled) {
    const EpochPermutation permutation(options_.dataset_size, options_.seed, where.epoch);
    for (auto& index : indices) index = permutation[index];
  }
  return indices;
}

SamplePosition GlobalSampler::position(std::uint64_t count) const {
  const EpochStep where = locate(count);
  return {where.epoch, where.step * options_.global_batch};
}

std::uint64_t GlobalSampler::count_at(const SamplePosition& position) const {
  const EpochStep where{position.epoch, position.sample / options_.global_batch};
  HORO_CHECK(position.sample % options_.global_batch == 0 && where.step < steps_per_epoch_,
             fmt::format("no step begins at sample {} of epoch {}: a step has {} samples, and an "
                         "epoch {} steps; choose the global batch and the data set that led there",
                         position.sample, position.epoch, options_.global_batch, steps_per_epoch_));
  return count_of(where);
}

}  // namespace horo::ops
