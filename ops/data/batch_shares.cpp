#include "ops/data/batch_shares.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

std::vector<double> equal_weights(int ranks) {
  HORO_CHECK(ranks > 0, fmt::format("{} ranks; there must be at least 1", ranks));
  return std::vector<double>(static_cast<std::size_t>(ranks), 1.0);
}

// Takes the missing rows from the largest parts, one by one.
void raise_to(std::size_t least, std::vector<std::size_t>& counts) {
  for (std::size_t& count : counts)
    while (count < least) {
      --*std::ranges::max_element(counts);
      ++count;
    }
}

}  // namespace

BatchShares::BatchShares(int ranks) : is_equal_(true), weights_(equal_weights(ranks)), least_(0) {}

BatchShares::BatchShares(std::vector<double> weights, std::size_t least)
    : is_equal_(false), weights_(std::move(weights)), least_(least) {
  HORO_CHECK(!weights_.empty(), "no batch weights; give one weight per rank");
  for (std::size_t rank = 0; rank < weights_.size(); ++rank)
    HORO_CHECK(std::isfinite(weights_[rank]) && weights_[rank] > 0,
               fmt::format("the batch weight of rank {} is {}; a weight must be finite and above 0",
                           rank, weights_[rank]));
  // Sums of weights must not overflow.
  const double largest = *std::ranges::max_element(weights_);
  for (double& weight : weights_) weight /= largest;
}

std::vector<std::size_t> BatchShares::counts(std::size_t rows) const {
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::vector<std::size_t> counts, order(ranks());
  std::vector<double> remainders;
  for (const double weight : weights_) {
    const double quota = static_cast<double>(rows) * weight / sum;
    counts.push_back(std::min(rows, static_cast<std::size_t>(quota)));
    remainders.push_back(quota - std::floor(quota));
  }
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t r) { return remainders[r]; });
  std::size_t given = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  for (std::size_t i = 0; given < rows; ++i, ++given) ++counts[order[i % order.size()]];
  if (rows >= least_ * ranks()) raise_to(least_, counts);
  return counts;
}

// Equal parts need no memory, and most jobs have them.
BatchShares::Part BatchShares::part(int rank, std::size_t rows) const {
  const auto own = static_cast<std::size_t>(rank);
  if (is_equal_)
    return {own * (rows / ranks()) + std::min(own, rows % ranks()),
            rows / ranks() + (own < rows % ranks() ? 1 : 0)};
  const std::vector<std::size_t> all = counts(rows);
  return {std::accumulate(all.begin(), all.begin() + rank, std::uint64_t{0}), all[own]};
}

}  // namespace horo::ops
