#include "ops/data/global_sampler.h"

#include <fmt/core.h>

#include <algorithm>

#include "horo/base/error.h"
#include "ops/data/epoch_permutation.h"

namespace horo::ops {

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
