#include "ops/train/batch_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/small_task.h"
#include "tests/support/memory_file.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::size_t> next_counts(BalanceSearch& search, const std::vector<double>& ms,
                                     const std::vector<std::size_t>& counts) {
  const auto weights = search.next(ms, counts, 1);
  std::size_t rows = 0;
  for (const std::size_t count : counts) rows += count;
  return weights ? BatchShares(*weights, 1).counts(rows) : counts;
}

// The first change goes halfway. The second one is whole, because the speeds demand more of it.
TEST(BalanceSearch, NeedsTwoChangesForConstantSpeeds) {
  BalanceSearch search;
  const std::vector<double> ms{1.0, 4.0};
  EXPECT_THAT(next_counts(search, ms, {50, 50}), ElementsAre(67, 33));
  EXPECT_THAT(next_counts(search, ms, {67, 33}), ElementsAre(80, 20));
  EXPECT_THAT(next_counts(search, ms, {80, 20}), ElementsAre(80, 20));
}

// The speeds demand the opposite of the first change, which was too large.
TEST(BalanceSearch, GoesHalfAsFarBackAfterAChangeThatWasTooLarge) {
  BalanceSearch search;
  EXPECT_THAT(next_counts(search, {1.0, 4.0}, {50, 50}), ElementsAre(67, 33));
  EXPECT_THAT(next_counts(search, {4.0, 1.0}, {67, 33}), ElementsAre(55, 45));
}

// Ranks with quotas of CPU time: the one that waits for the other saves its quota, and computes at
// the full speed of its core. The speeds demand too much on either side of the best parts.
TEST(BalanceSearch, ConvergesIfTheRankThatWaitsSeemsFast) {
  BalanceSearch search;
  std::vector<std::size_t> counts{24, 24};
  std::vector<std::size_t> latest;
  for (int i = 0; i < 12; ++i) {
    const bool is_first_waiting = counts[0] < 2 * counts[1];
    counts =
        next_counts(search, {is_first_waiting ? 1.0 : 2.0, is_first_waiting ? 4.0 : 1.0}, counts);
    if (i >= 6) latest.push_back(counts[0]);
  }
  for (const std::size_t count : latest) EXPECT_NEAR(static_cast<double>(count), 32, 3);
}

// A rank that is busy for the whole step may be slower per sample than one that waits, if it has a
// quota of time. Whole changes would exchange the parts again and again.
TEST(BalanceSearch, ConvergesIfTheTimeForASampleDependsOnTheParts) {
  for (const double power : {0.0, 0.5, 1.0, 2.0}) {
    BalanceSearch search;
    std::vector<std::size_t> counts{300, 300};
    const auto time = [&](std::size_t rank) {
      return (rank + 1) * std::pow(static_cast<double>(counts[rank]) / 300, power);
    };
    for (int i = 0; i < 8; ++i) counts = next_counts(search, {time(0), time(1)}, counts);
    EXPECT_EQ(next_counts(search, {time(0), time(1)}, counts), counts) << power;
    const double first = time(0) * static_cast<double>(counts[0]);
    EXPECT_NEAR(time(1) * static_cast<double>(counts[1]) / first, 1, 0.12) << power;
  }
}

TEST(BalanceSearch, IgnoresASmallGain) {
  const std::vector<std::size_t> counts{500, 500};
  EXPECT_FALSE(BalanceSearch().next(std::vector{1.0, 1.06}, counts, 1));
  EXPECT_TRUE(BalanceSearch().next(std::vector{1.0, 1.12}, counts, 1));
}

// The parts are whole samples, so a gain of less than one sample is none.
TEST(BalanceSearch, IgnoresAGainThatNoWholeSampleHas) {
  const std::vector<std::size_t> few{3, 2}, least{2, 2};
  EXPECT_FALSE(BalanceSearch().next(std::vector{1.0, 1.3}, few, 1));
  EXPECT_FALSE(BalanceSearch().next(std::vector{1.0, 50.0}, least, 2));
}

TrainerOptions balance_options() {
  return {.epochs = 2, .global_batch = 24, .seed = 5, .evaluation_batch = 64};
}

struct BalanceRun {
  std::vector<TrainReport> reports;
  std::string shown;  // by rank 0
};

// The last rank needs `delay` longer for each sample.
BalanceRun train_unequal(int ranks, TrainerOptions options,
                         std::chrono::microseconds delay = std::chrono::microseconds(0),
                         bool on_device = false) {
  static const BarsDataset train_set(480, 1), test_set(150, 2);
  const MemoryFile shown;
  BalanceRun run{.reports = std::vector<TrainReport>(static_cast<std::size_t>(ranks)), .shown = {}};
  options.progress.file = shown.file();
  options.loader.threads = delay.count() > 0 ? 0 : 2;
  testing::run_ranks(ranks, [&](Context& context) {
    set_compute_threads(1);
    const device::HostDevice::Options stand_in{};
    const auto device = std::make_shared<device::HostDevice>(stand_in);
    TrainerOptions own = options;
    if (on_device) own.device.device = device.get();
    if (context.rank() == ranks - 1 && delay.count() > 0)
      own.loader.augmentation = [delay](auto, auto, auto) { std::this_thread::sleep_for(delay); };
    const auto model = make_small_model(0.1f);
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
    run.reports[static_cast<std::size_t>(context.rank())] =
        Trainer(context, *model, optimizer, train_set, test_set, own).run();
  });
  run.shown = shown.text();
  return run;
}

void expect_same_curve(const TrainReport& report, const TrainReport& expected) {
  ASSERT_EQ(report.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    EXPECT_NEAR(report.losses[i], expected.losses[i], 1e-4f * expected.losses[i]) << "step " << i;
  EXPECT_NEAR(report.test_accuracy, expected.test_accuracy, 0.02);
}

TEST(BatchBalance, WeightsDoNotChangeTheLosses) {
  const TrainReport equal = train_unequal(1, balance_options()).reports[0];
  EXPECT_THAT(equal.batch_shares, ElementsAre(24));
  TrainerOptions options = balance_options();
  options.shares.weights = {2, 1, 0.01};
  options.accumulate = 2;
  for (const TrainReport& report : train_unequal(3, options).reports) {
    EXPECT_THAT(report.batch_shares, ElementsAre(14, 8, 2));
    expect_same_curve(report, equal);
  }
}

TEST(BatchBalance, GivesASlowRankFewerSamples) {
  const TrainReport equal = train_unequal(1, balance_options()).reports[0];
  TrainerOptions options = balance_options();
  options.shares = {.automatic = true, .every = 5};
  const BalanceRun run = train_unequal(2, options, std::chrono::milliseconds(1));
  EXPECT_GT(run.reports[0].batch_shares[0], 15u);
  EXPECT_LT(run.reports[0].batch_shares[1], 9u);
  EXPECT_THAT(run.shown, HasSubstr("on, the ranks have "));
  for (const TrainReport& report : run.reports) {
    EXPECT_EQ(report.batch_shares, run.reports[0].batch_shares);
    expect_same_curve(report, equal);
  }
}

// On a device the times of a step are known some steps later.
TEST(BatchBalance, FollowsTheSpeedsOfDevices) {
  const TrainReport equal = train_unequal(1, balance_options(), {}, true).reports[0];
  TrainerOptions options = balance_options();
  options.shares = {.weights = {1, 1}, .automatic = true, .every = 6};
  const BalanceRun run = train_unequal(2, options, std::chrono::milliseconds(1), true);
  EXPECT_GT(run.reports[1].batch_shares[0], 15u);
  for (const TrainReport& report : run.reports) expect_same_curve(report, equal);
}

std::string refusal_of_shares(const TrainerOptions& options) {
  try {
    (void)train_unequal(2, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(BatchBalance, RefusesWeightsThatFitNoRank) {
  TrainerOptions options = balance_options();
  options.shares.weights = {1, 1, 1};
  EXPECT_THAT(refusal_of_shares(options), HasSubstr("3 batch weights for 2 ranks"));
  options.shares.weights = {1, 0};
  EXPECT_THAT(refusal_of_shares(options), HasSubstr("the batch weight of rank 1 is 0"));
  options.shares.weights = {1, 2};
  options.gradient_op = ReduceOp::kAdasum;
  EXPECT_THAT(refusal_of_shares(options), HasSubstr("leave the shares or Adasum out"));
  options = balance_options();
  options.shares = {.automatic = true, .every = 0};
  EXPECT_THAT(refusal_of_shares(options), HasSubstr("every 0 steps; choose at least 1"));
}

}  // namespace
}  // namespace horo::ops
