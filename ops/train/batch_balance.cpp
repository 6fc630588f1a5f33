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
constexpr double kLeastGain = 1.04;
// A few changes in one direction are whole again, after others that noise has reversed.
constexpr double kLeastFactor = 1.0 / 16;
// The first steps allocate memory and choose kernels.
constexpr std::uint64_t kWarmUpSteps = 3;
constexpr std::uint64_t kPieces = 5;
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
  if (change_.size() == change.size()) {
    const double product = std::inner_product(change.begin(), change.end(), change_.begin(), 0.0);
    factor_ = std::clamp(product > 0 ? 2 * factor_ : factor_ / 2, kLeastFactor, 1.0);
  }
  change_ = change;
  std::vector<double> weights;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    weights.push_back(static_cast<double>(counts[rank]) * std::exp(factor_ * change[rank]));
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
      counts_(BatchShares(context.size()).counts(sampler.options().global_batch)),
      ignored_(kWarmUpSteps) {
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
  const bool is_measured = ignored_ == 0;
  if (on_device) awaited_.push_back(is_measured ? std::optional(rows) : std::nullopt);
  if (!is_measured) {
    --ignored_;
    return;
  }
  if (on_device)
    add(0, data_ms);
  else
    add(rows, data_ms + times[StepPhase::kForward] + times[StepPhase::kBackward] +
                  times[StepPhase::kOptimizer]);
  ++steps_;
}

void BatchBalance::add_device_times(const StepTimes& times) {
  if (awaited_.empty()) return;
  if (const auto rows = awaited_.front())
    add(*rows,
        times[StepPhase::kForward] + times[StepPhase::kBackward] + times[StepPhase::kOptimizer]);
  awaited_.pop_front();
}

void BatchBalance::add(std::size_t rows, double ms) {
  const std::uint64_t steps = std::max<std::uint64_t>(1, options_.every / kPieces);
  pieces_.resize(std::max<std::size_t>(pieces_.size(), steps_ / steps + 1));
  pieces_[steps_ / steps].rows += rows;
  pieces_[steps_ / steps].ms += ms;
}

// 0 without measured steps, which changes no parts.
double BatchBalance::own_ms_per_sample() {
  std::vector<Piece> pieces = std::exchange(pieces_, {});
  steps_ = 0;
  std::erase_if(pieces, [](const Piece& piece) { return piece.rows == 0; });
  std::ranges::sort(pieces, {}, &Piece::ms_per_sample);
  const std::size_t skipped = pieces.size() > 2 ? 1 : 0;
  Piece sum;
  for (const Piece& piece : std::span(pieces).subspan(skipped, pieces.size() - 2 * skipped)) {
    sum.rows += piece.rows;
    sum.ms += piece.ms;
  }
  return sum.rows > 0 ? sum.ms_per_sample() : 0;
}

// The loader begins no step during the exchange, so the agreed step is ahead of all loaders. Until
// it is reached, the steps have the old parts and are not measured.
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
  if (weights) {
    set_shares(static_cast<std::uint64_t>(first), BatchShares(*weights, least_));
    ignored_ = since_ - steps;
    std::ranges::fill(awaited_, std::nullopt);
  }
  loader.release();
  if (!weights) return std::nullopt;
  return fmt::format("step {}: from step {} on, the ranks have {} samples", steps, since_ + 1,
                     describe(counts_));
}

}  // namespace horo::ops
