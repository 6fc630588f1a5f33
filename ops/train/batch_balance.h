#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/data/batch_shares.h"
#include "ops/data/data_loader.h"
#include "ops/train/step/step_timer.h"

namespace horo::ops {

/// How the samples of a step are divided between ranks of unequal speed. Every sample keeps the
/// same weight in the average gradient, and a step has the same samples.
struct BatchShareOptions {
  /// One weight per rank, above 0: the parts of the ranks are proportional to them, and have at
  /// least one sample per pass. Empty: equal parts.
  std::vector<double> weights{};
  /// The parts follow the measured speeds of the ranks, so that all ranks finish a step together.
  /// `weights` are the begin. The parts, and with them the last bits of the results, depend on the
  /// timing.
  bool automatic = false;
  /// Steps between comparisons of the speeds; at least 1. More steps average over more noise.
  std::uint64_t every = 20;
};

/// Finds the parts with which ranks of unequal speed finish a step together. The time for a sample
/// may itself depend on the parts: a rank with a quota of CPU time saves it while it waits, and is
/// fast then. Whole changes to the parts in proportion to the speeds would oscillate. The first
/// change therefore goes halfway (the geometric mean). If the speeds demand more of the same
/// change, the next one goes twice as far, but not beyond the whole way; if they demand the
/// opposite, half as far. Used from one thread.
class BalanceSearch {
 public:
  /// The weights of the next parts, or nothing if parts in proportion to the speeds would not make
  /// the step at least 4 % shorter. ms_per_sample[r] is the time of rank r for a sample with these
  /// parts, and counts[r] >= 1 the samples that it has now. `least`: samples that each rank keeps.
  std::optional<std::vector<double>> next(std::span<const double> ms_per_sample,
                                          std::span<const std::size_t> counts, std::size_t least);

 private:
  std::vector<double> change_;  // of the logarithms of the weights that the speeds last demanded
  double factor_ = 0.5;         // of the next change
};

/// Divides the global batch between the ranks by BatchShareOptions. Used from one thread.
///
/// The speed of a rank is its samples by the time of its own work: the wait for data, forward,
/// backward and the optimizer, without the exposed communication, in which it waits for others. The
/// steps with the present parts since the latest comparison are measured in five pieces; the
/// fastest and the slowest piece do not count, so that one interruption has no effect. Work that
/// does not depend on the samples makes the first parts inexact; later comparisons correct them,
/// because the parts change until the times are equal.
///
/// All ranks change their parts at the same step, the first one that no loader has begun. Cost: an
/// allgather of 16 bytes per rank in every comparison.
class BatchBalance {
 public:
  /// Borrows all arguments. `sampler` and `evaluation` divide by the weights from step 0 on.
  /// `passes`: of a step. Throws InvalidArgument for a wrong number of weights, a weight that is
  /// not above 0, and `every` 0.
  BatchBalance(Context& context, const BatchShareOptions& options, GlobalSampler& sampler,
               GlobalSampler& evaluation, std::size_t passes);

  /// A step of this rank with `rows` samples. On a device, only the wait for data counts of
  /// `times`, and add_device_times() has the rest.
  void add_step(std::size_t rows, const StepTimes& times, bool on_device);
  /// Of the oldest step on a device whose times were not added.
  void add_device_times(const StepTimes& times);
  /// Compares the speeds if it is time to, after step number `steps`. `loader` reads ahead.
  /// Returns a text if the parts change. Collective; all ranks return the same text.
  std::optional<std::string> after_step(std::uint64_t steps, DataLoader& loader);
  /// The samples of each rank in a step, with the latest shares.
  const std::vector<std::size_t>& counts() const { return counts_; }

 private:
  struct Piece {
    std::size_t rows = 0;
    double ms = 0;
    double ms_per_sample() const { return ms / static_cast<double>(rows); }
  };

  void set_shares(std::uint64_t first, const BatchShares& shares);
  void add(std::size_t rows, double ms);
  double own_ms_per_sample();

  Context& context_;
  const BatchShareOptions options_;
  GlobalSampler& sampler_;
  GlobalSampler& evaluation_;
  const std::size_t least_;
  BalanceSearch search_;
  std::vector<std::size_t> counts_;
  std::uint64_t since_ = 0;  // the first step with the latest shares
  std::uint64_t ignored_;    // the next steps that are not measured
  std::uint64_t steps_ = 0;  // measured since the latest comparison
  std::vector<Piece> pieces_;
  /// The steps on a device without times: their rows, or nothing if they are not measured.
  std::deque<std::optional<std::size_t>> awaited_;
};

}  // namespace horo::ops
