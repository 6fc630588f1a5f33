// Local SGD and DiLoCo: by hand for two ranks, and in whole runs.
#include "ops/train/update/local_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

/// Two parameters of one value each, with an Sgd of rate 1, and gradients that the test gives.
struct TwoValues {
  TwoValues(Context& context, const LocalUpdateOptions& options) {
    for (const char* name : {"a", "b"})
      parameters.push_back(
          {.name = name, .value = Tensor::zeros({1}), .gradient = Tensor::zeros({1})});
    value(0) = 10;
    value(1) = 20;
    optimizer.emplace(std::vector<Parameter*>{&parameters[0], &parameters[1]},
                      SgdOptions{.learning_rate = 1});
    update.emplace(context, *optimizer, scalars, options);
  }

  float& value(std::size_t index) { return parameters[index].value.values()[0]; }

  /// The next step of this rank, with gradients `a` and `b`.
  void step(float a, float b) {
    update->begin_step(done++);
    parameters[0].gradient.values()[0] = a;
    parameters[1].gradient.values()[0] = b;
    update->exchange();
    update->update();
    for (StepOutcome& outcome : update->outcomes(false)) outcomes.push_back(std::move(outcome));
  }

  std::deque<Parameter> parameters;
  std::optional<Sgd> optimizer;
  StepScalars scalars;
  std::optional<LocalUpdate> update;
  std::uint64_t done = 0;
  std::vector<StepOutcome> outcomes;
};

TEST(LocalUpdate, TakesOuterStepsWithNesterovMomentum) {
  testing::run_ranks(2, [](Context& context) {
    const auto own = static_cast<float>(context.rank());
    TwoValues task(context, {.steps = {.count = 2, .outer_rate = 0.5f, .outer_momentum = 0.5f}});
    task.step(1 + own, 0);
    EXPECT_EQ(task.value(0), 10 - (1 + own));
    task.step(1 + own, 2);
    // Changes: a 2 and 4, on average 3; b 2. Momentum: a 3, b 2.
    EXPECT_EQ(task.value(0), 10 - 0.5f * (3 + 0.5f * 3));
    EXPECT_EQ(task.value(1), 20 - 0.5f * (2 + 0.5f * 2));
    task.step(2 * own, 0);
    task.step(0, 0);
    // Changes: a 0 and 2, on average 1. Momentum: a 0.5 * 3 + 1, b 0.5 * 2.
    EXPECT_EQ(task.value(0), 7.75f - 0.5f * (1 + 0.5f * 2.5f));
    EXPECT_EQ(task.value(1), 18.5f - 0.5f * (0 + 0.5f * 1));
    task.update->finish();
  });
}

TEST(LocalUpdate, ExchangesFragmentsAtTheirSteps) {
  testing::run_ranks(2, [](Context& context) {
    const auto own = static_cast<float>(context.rank());
    TwoValues task(context, {.steps = {.count = 4, .fragments = 2}});
    const auto expect = [&](float a, float b) {
      EXPECT_EQ(task.value(0), a) << "after step " << task.done;
      EXPECT_EQ(task.value(1), b) << "after step " << task.done;
      task.step(2 * own, 4 * own);
    };
    expect(10, 20);
    expect(10 - 2 * own, 20 - 4 * own);
    expect(8, 20 - 8 * own);
    expect(8 - 2 * own, 20 - 12 * own);
    expect(8 - 4 * own, 12);
    expect(8 - 6 * own, 12 - 4 * own);
    expect(4, 12 - 8 * own);
    task.update->finish();
    EXPECT_EQ(task.value(0), 3);
    EXPECT_EQ(task.value(1), 6);
  });
}

// The change of the step after which an exchange starts is merged `overlap` steps later.
TEST(LocalUpdate, MergesTheExchangeAfterTheOverlap) {
  testing::run_ranks(2, [](Context& context) {
    const auto own = static_cast<float>(context.rank());
    TwoValues task(context, {.steps = {.count = 3, .overlap = 2, .mixing = 0.25f}});
    for (int step = 0; step < 4; ++step) task.step(2 * own, 1);
    EXPECT_EQ(task.value(0), 10 - 8 * own);  // in flight
    EXPECT_EQ(task.value(1), 16);
    EXPECT_EQ(task.outcomes.size(), 0u);
    task.step(2 * own, 1);
    // After 3 steps the average is 7 and 17.
    EXPECT_EQ(task.value(0), 0.25f * (10 - 10 * own) + 0.75f * 7);
    EXPECT_EQ(task.value(1), 0.25f * 15 + 0.75f * 17);
    EXPECT_EQ(task.outcomes.size(), 3u);
    task.update->finish();
  });
}

TEST(LocalUpdate, ShowsAgreedValuesBetweenExchanges) {
  testing::run_ranks(2, [](Context& context) {
    const auto own = static_cast<float>(context.rank());
    TwoValues task(context, {.steps = {.count = 2}});
    for (int step = 0; step < 3; ++step) task.step(2 * own, 1);
    for (int repeat = 0; repeat < 2; ++repeat) {
      task.update->show_agreed();
      EXPECT_EQ(task.value(0), 8);
      EXPECT_EQ(task.value(1), 18);
    }
    task.step(2 * own, 1);
    EXPECT_EQ(task.value(0), 6);
    EXPECT_EQ(task.value(1), 16);
    task.update->finish();
  });
}

TEST(LocalUpdate, AgreesAtTheLastStep) {
  for (const std::uint64_t last : {4u, 5u})
    testing::run_ranks(2, [&](Context& context) {
      const auto own = static_cast<float>(context.rank());
      TwoValues task(context, {.steps = {.count = 2, .outer_momentum = 0.5f}, .last_step = last});
      for (std::uint64_t step = 0; step < last; ++step) task.step(2 * own, 0);
      // Changes 2 and 2: momentum 2 and 3. A last exchange that is not due averages.
      const float after_4 = 10 - (2 + 1) - (2 + 1.5f);
      EXPECT_EQ(task.value(0), last == 4 ? after_4 : after_4 - 1);
      EXPECT_EQ(task.outcomes.size(), last);
      task.update->finish();
      EXPECT_EQ(task.value(0), last == 4 ? after_4 : after_4 - 1);
    });
}

TEST(LocalUpdate, AveragesTheOutcomesOfSteps) {
  testing::run_ranks(4, [](Context& context) {
    TwoValues task(context, {.steps = local_sgd(3)});
    for (int step = 0; step < 8; ++step) {
      task.scalars.loss = static_cast<float>(100 * step + context.rank());
      task.scalars.requests.stop = step == 4 && context.rank() == 2 ? 1.0f : 0.0f;
      task.step(0, 0);
      EXPECT_EQ(task.outcomes.size(), static_cast<std::size_t>((step + 1) / 3 * 3));
    }
    for (StepOutcome& outcome : task.update->outcomes(true)) task.outcomes.push_back(outcome);
    ASSERT_EQ(task.outcomes.size(), 8u);
    for (std::size_t step = 0; step < 8; ++step) {
      EXPECT_EQ(task.outcomes[step].loss, static_cast<float>(100 * step) + 1.5f);
      EXPECT_EQ(task.outcomes[step].requests.stop > 0, step == 4);
    }
    task.update->finish();
  });
}

TEST(LocalUpdate, ClipsTheGradientsOfARank) {
  testing::run_ranks(2, [](Context& context) {
    TwoValues task(context, {.steps = local_sgd(2), .clip_norm = 5});
    task.step(context.rank() == 1 ? 6.0f : 3.0f, context.rank() == 1 ? 8.0f : 4.0f);
    EXPECT_EQ(task.value(0), 7);
    EXPECT_EQ(task.value(1), 16);
    task.step(0, 0);
    EXPECT_TRUE(task.outcomes.at(0).was_clipped);
    EXPECT_FALSE(task.outcomes.at(1).was_clipped);
    task.update->finish();
  });
}

TEST(LocalUpdate, SkipsNonFiniteGradientsOfARank) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  testing::run_ranks(2, [](Context& context) {
    TwoValues task(context, {.steps = local_sgd(2), .check_finite = true});
    task.step(context.rank() == 1 ? kInfinity : 4.0f, 0);
    task.step(0, 0);
    EXPECT_EQ(task.value(0), 8);
    EXPECT_EQ(task.outcomes.at(0).why_skipped, "the gradients of 1 of 2 ranks are not finite");
    EXPECT_EQ(task.outcomes.at(1).why_skipped, "");
    task.update->finish();
  });
}

TEST(LocalUpdate, RejectsNonFiniteChangesOnAllRanks) {
  testing::run_ranks(2, [](Context& context) {
    TwoValues task(context, {.steps = local_sgd(2), .check_finite = true});
    task.step(2, 2);
    if (context.rank() == 1) task.value(1) = std::numeric_limits<float>::quiet_NaN();
    task.step(2, 2);
    EXPECT_EQ(task.value(0), 10);
    EXPECT_EQ(task.value(1), 20);
    EXPECT_EQ(task.outcomes.at(1).why_skipped, "the average change of b is not finite");
    task.step(2, 2);
    task.step(2, 2);
    EXPECT_EQ(task.value(0), 6);
    EXPECT_EQ(task.outcomes.at(3).why_skipped, "");
    task.update->finish();
  });
}

std::vector<TrainReport> train_locally(int ranks, const TrainerOptions& options, float momentum = 0,
                                       const Dataset& train_set = BarsDataset(480, 1),
                                       const testing::RunOptions& run = {}) {
  static const BarsDataset test_set(150, 2);
  std::vector<TrainReport> reports(static_cast<std::size_t>(ranks));
  const auto train_rank = [&](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = momentum});
    reports[static_cast<std::size_t>(context.rank())] =
        Trainer(context, *model, optimizer, train_set, test_set, options).run();
  };
  testing::run_ranks(ranks, train_rank, run);
  return reports;
}

TrainerOptions local_options(const LocalSteps& steps) {
  TrainerOptions options{.epochs = 2, .global_batch = 24, .seed = 5, .evaluation_batch = 64};
  options.local_steps = steps;
  return options;
}

// Without momentum, the average of the parameters after one step of each rank is the parameters
// after one step with the average gradient.
TEST(LocalSteps, OfOneStepAreSynchronousSgd) {
  for (const int ranks : {1, 4}) {
    const std::vector<float> expected = train_locally(ranks, local_options({}))[0].losses;
    for (const TrainReport& report : train_locally(ranks, local_options(local_sgd(1)))) {
      ASSERT_EQ(report.losses.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(report.losses[i], expected[i], 1e-4f * expected[i]) << i;
    }
  }
}

TEST(LocalSteps, TrainOnAnyNumberOfRanks) {
  for (const auto& [ranks, steps] : {std::pair{1, diloco(6, 3, 2)}, std::pair{3, local_sgd(4)},
                                     std::pair{4, diloco(7)}, std::pair{4, diloco(4, 4, 3)}}) {
    const std::vector<TrainReport> reports = train_locally(ranks, local_options(steps), 0.5f);
    for (const TrainReport& report : reports) {
      EXPECT_EQ(report.losses.size(), 40u);
      EXPECT_EQ(report.losses, reports[0].losses);
      EXPECT_EQ(report.param_hash, reports[0].param_hash);
      EXPECT_EQ(report.test_loss, reports[0].test_loss);
    }
    EXPECT_LT(reports[0].test_loss, 1.2) << ranks << " ranks, " << describe(steps);
  }
}

TEST(LocalSteps, SendInt8BetweenNodesAndAccumulate) {
  TrainerOptions options = local_options(diloco(5, 2, 1));
  options.compression = {.kind = Compression::Kind::kInt8};
  options.accumulate = 2;
  const std::vector<TrainReport> reports = train_locally(
      2, options, 0.5f, BarsDataset(480, 1), {.environment = {"HORO_RANKS_PER_NODE=1"}});
  EXPECT_EQ(reports[1].param_hash, reports[0].param_hash);
  EXPECT_GT(reports[0].compression.compression_rate(), 3.0);
  EXPECT_LT(reports[0].test_loss, 1.2);
}

TEST(LocalSteps, EndOnAllRanksAtTheExchangeAfterANonFiniteLoss) {
  const PoisonedDataset poisoned(480, 1);
  EXPECT_THROW(train_locally(3, local_options(local_sgd(8)), 0.5f, poisoned), Error);
  TrainerOptions options = local_options(local_sgd(8));
  options.max_skipped = 2;
  for (const TrainReport& report : train_locally(3, options, 0.5f, poisoned)) {
    EXPECT_EQ(report.skipped_steps, 2u);
    EXPECT_LT(report.test_loss, 1.2);
  }
}

TEST(LocalSteps, RefuseOtherMethods) {
  const auto refusal_of_options = [](TrainerOptions options) -> std::string {
    options.local_steps = local_sgd(4);
    try {
      train_locally(2, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "none";
  };
  TrainerOptions options = local_options({});
  options.shard_optimizer = true;
  EXPECT_THAT(refusal_of_options(options), HasSubstr("leave local steps out"));
  options.shard_optimizer = false;
  options.gradient_op = ReduceOp::kAdasum;
  EXPECT_THAT(refusal_of_options(options), HasSubstr("leave Adasum out"));
}

}  // namespace
}  // namespace horo::ops
