#include "ops/train/batch_balance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace horo::ops {
namespace {

// Noise moves the parts if this is too small, and a change costs steps with new shapes.
constexpr double kLeastGain = 1.05;
// The first steps allocate memory and choose kernels.
constexpr std::uint64_t kWarmUpSteps = 3;
constexpr std::size_t kMostRanksShown = 16;

double longest_ms(std::span<const double> ms_per_sample, std::span<const std::size_t> counts) {
  double longest = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    longest = std::max(longest, ms_per_sample[rank] * static_cast<double>(counts[rank]));
  return longest;
}

std::string describe(std::span<const std::size_t> counts) {
  return fmt::format("{}{}",
                     fmt::join(counts.first(std::min(counts.size(), kMostRanksShown)), ", "),
                     counts.size() > kMostRanksShown ? " and more" : "");
}

}  // namespace

std::optional<std::vector<double>> BalanceSearch::next(std::span<const double> ms_per_sample,
                                                       std::span<const std::size_t> counts,
                                                       std::size_t least) {
  std::vector<double> speeds, change;
  std::size_t rows = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    speeds.push_back(1 / ms_per_sample[rank]);
    rows += counts[rank];
  }
  const std::vector<std::size_t> best = BatchShares(speeds, least).counts(rows);
  if (longest_ms(ms_per_sample, counts) < kLeastGain * longest_ms(ms_per_sample, best))
    return std::nullopt;
  const double sum = std::reduce(speeds.begin(), speeds.end());
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    change.push_back(std::log(speeds[rank] / sum * static_cast<double>(rows) /
                              static_cast<double>(counts[rank])));
  const bool repeats = change_.size() == change.size() &&
                       std::inner_product(change.begin(), change.end(), change_.begin(), 0.0) > 0;
  change_ = change;
  std::vector<double> weights;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    weights.push_back(static_cast<double>(counts[rank]) *
                      std::exp(repeats ? change[rank] : change[rank] / 2));
  if (std::ranges::equal(BatchShares(weights, least).counts(rows), counts)) return std::nullopt;
  return weights;
}

BatchBalance::BatchBalance(Context& context, const BatchShareOptions& options,
                           GlobalSampler& sampler, GlobalSampler& evaluation, std::size_t passes)
    : context_(context),
      options_(options),
      sampler_(sampler),
      evaluation_(evaluation),
      least_(passes),
      counts_(BatchShares(context.size()).counts(sampler.options().global_batch)) {
  HORO_CHECK(options.every > 0,
             "the speeds of ranks are compared every 0 steps; choose at least 1");
  if (!options.weights.empty()) set_shares(0, BatchShares(options.weights, least_));
}

void BatchBalance::set_shares(std::uint64_t first, const BatchShares& shares) {
  sampler_.set_shares(first, shares);
  evaluation_.set_shares(0, shares);  // no evaluation is running
  counts_ = shares.counts(sampler_.options().global_batch);
  since_ = first;
}

void BatchBalance::add_step(std::size_t rows, const StepTimes& times, bool on_device) {
  if (!options_.automatic) return;
  const double data_ms = times[StepPhase::kDataWait];
  if (on_device) {
    awaited_.push_back(rows);
    add(0, data_ms);
  } else {
    add(rows, data_ms + times[StepPhase::kForward] + times[StepPhase::kBackward] +
                  times[StepPhase::kOptimizer]);
  }
  ++steps_;
}

void BatchBalance::add_device_times(const StepTimes& times) {
  if (awaited_.empty()) return;
  add(std::exchange(awaited_.front(), 0),
      times[StepPhase::kForward] + times[StepPhase::kBackward] + times[StepPhase::kOptimizer]);
  awaited_.pop_front();
}

void BatchBalance::add(std::size_t rows, double ms) {
  if (steps_ < kWarmUpSteps) return;
  rows_ += rows;
  ms_ += ms;
}

// 0 without two measurements, which changes no parts.
double BatchBalance::own_ms_per_sample() {
  const double latest = rows_ > 0 ? std::exchange(ms_, 0) / static_cast<double>(rows_) : 0;
  rows_ = 0;
  return std::min(latest, std::exchange(previous_, latest));
}

// The loader begins no step during the exchange, so the agreed step is ahead of all loaders. Until
// it is reached, the steps have the old parts and are not compared.
std::optional<std::string> BatchBalance::after_step(std::uint64_t steps, DataLoader& loader) {
  if (!options_.automatic || context_.size() == 1) return std::nullopt;
  if (steps % options_.every != 0 || steps < since_) return std::nullopt;
  const std::array own{own_ms_per_sample(), static_cast<double>(loader.hold())};
  std::vector<double> all(own.size() * counts_.size());
  context_.allgather(ConstTensorView(own), TensorView(all), {.name = "train.batch_shares"});
  std::vector<double> ms_per_sample;
  double first = 0;
  for (std::size_t i = 0; i < all.size(); i += own.size()) {
    ms_per_sample.push_back(all[i]);
    first = std::max(first, all[i + 1]);
  }
  std::optional<std::vector<double>> weights;
  if (std::ranges::min(ms_per_sample) > 0) weights = search_.next(ms_per_sample, counts_, least_);
  if (weights) set_shares(static_cast<std::uint64_t>(first), BatchShares(*weights, least_));
  loader.release();
  if (!weights) return std::nullopt;
  return fmt::format("step {}: from step {} on, the ranks have {} samples", steps, since_ + 1,
                     describe(counts_));
}

}  // namespace horo::ops
