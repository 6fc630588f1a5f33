#include "ops/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/nn/initialise.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "tests/ops/train/small_task.h"
#include "tests/support/memory_file.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

const BarsDataset kTrainSet(480, 1);
const BarsDataset kTestSet(150, 2);

TrainerOptions small_options() {
  return {.epochs = 2, .global_batch = 24, .seed = 5, .evaluation_batch = 64};
}

/// The reports of all ranks, in rank order.
std::vector<TrainReport> train(int ranks, const TrainerOptions& options, float dropout = 0.0f,
                               float learning_rate = 0.1f, const testing::RunOptions& run = {}) {
  std::vector<TrainReport> reports(static_cast<std::size_t>(ranks));
  const auto train_rank = [&](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model(dropout);
    Sgd optimizer(model->parameters(), {.learning_rate = learning_rate, .momentum = 0.9f});
    Trainer trainer(context, *model, optimizer, kTrainSet, kTestSet, options);
    reports[static_cast<std::size_t>(context.rank())] = trainer.run();
  };
  testing::run_ranks(ranks, train_rank, run);
  return reports;
}

void expect_close(const std::vector<float>& losses, const std::vector<float>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-4f * std::abs(expected[i])) << "step " << i;
}

TEST(Trainer, LearnsAndReports) {
  const auto report = train(2, small_options())[0];
  EXPECT_EQ(report.ranks, 2);
  EXPECT_EQ(report.epochs, 2u);
  EXPECT_EQ(report.steps, 40u);
  ASSERT_EQ(report.losses.size(), 40u);
  EXPECT_NEAR(report.losses.front(), std::log(8.0f), 1.0f);
  EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
  EXPECT_GT(report.test_accuracy, 0.6);
  EXPECT_GT(report.samples_per_second, 0);
  EXPECT_GT(report.median_step.total_ms, 0);
  EXPECT_GT(report.median_step[StepPhase::kForward], 0);
  EXPECT_EQ(report.param_hash.size(), 16u);
}

TEST(Trainer, LossesDoNotDependOnTheNumberOfRanks) {
  const auto options = small_options();
  const auto alone = train(1, options)[0];
  for (const int ranks : {2, 3, 4}) {
    for (const auto& report : train(ranks, options)) {
      expect_close(report.losses, alone.losses);
      EXPECT_NEAR(report.test_accuracy, alone.test_accuracy, 0.02);
    }
  }
}

TEST(Trainer, AugmentsOnlyTrainingSamples) {
  auto options = small_options();
  const auto plain = train(1, options)[0];
  std::atomic<std::size_t> augmented = 0;
  options.loader.augmentation = [&](std::span<float> values, std::uint64_t epoch,
                                    std::uint64_t sample) {
    ++augmented;
    RandomStream random(combine_keys(epoch, sample));
    for (float& value : values) value += 0.1f * random.normal();
  };
  const auto alone = train(1, options)[0];
  EXPECT_EQ(augmented, 2 * kTrainSet.size());
  EXPECT_NE(alone.losses, plain.losses);
  expect_close(train(3, options)[0].losses, alone.losses);
}

TEST(Trainer, StepsMayEndInAnyEpoch) {
  auto options = small_options();
  options.steps = 45;
  for (const auto& report : train(2, options)) {
    EXPECT_EQ(report.losses.size(), 45u);
    EXPECT_EQ(report.epochs, 3u);
    EXPECT_FALSE(report.was_stopped);
  }
}

TEST(Trainer, WeighsSamplesEquallyInUnevenBatches) {
  auto options = small_options();
  options.global_batch = 10;
  options.steps = 30;
  const auto alone = train(1, options)[0];
  EXPECT_EQ(alone.losses.size(), 30u);
  for (const int ranks : {3, 4}) expect_close(train(ranks, options)[0].losses, alone.losses);
}

// An epoch has 2 steps; the last one has 80 samples, of which some ranks have none.
TEST(Trainer, PadsLastBatchExactly) {
  auto options = small_options();
  options.global_batch = 400;
  options.last_batch = LastBatch::kPad;
  const auto alone = train(1, options)[0];
  EXPECT_EQ(alone.losses.size(), 4u);
  for (const int ranks : {2, 3, 4}) expect_close(train(ranks, options)[0].losses, alone.losses);
}

TEST(Trainer, DrawsSamplesByWeight) {
  std::vector<double> weights(kTrainSet.size());
  std::fill_n(weights.begin(), 10, 1.0);
  auto options = small_options();
  options.sample_weights = std::make_shared<const WeightedDraw>(weights);
  std::atomic<bool> is_allowed = true;
  options.loader.augmentation = [&](auto, auto, std::uint64_t sample) {
    if (sample >= 10) is_allowed = false;
  };
  const auto alone = train(1, options)[0];
  EXPECT_TRUE(is_allowed);
  expect_close(train(3, options)[0].losses, alone.losses);
}

TEST(Trainer, RandomLayersDoNotDependOnTheNumberOfRanks) {
  auto options = small_options();
  options.steps = 25;
  const auto alone = train(1, options, 0.3f)[0];
  expect_close(train(2, options, 0.3f)[0].losses, alone.losses);
}

TEST(Trainer, IsReproducibleOnEveryRank) {
  auto options = small_options();
  for (const int ranks : {1, 2, 3}) {
    const auto first = train(ranks, options);
    options.loader = {.threads = 2, .prefetch = 1};
    const auto second = train(ranks, options);
    for (const auto& report : second) {
      EXPECT_EQ(report.param_hash, first[0].param_hash);
      EXPECT_EQ(report.losses, first[0].losses);
    }
  }
  options.seed = 6;
  EXPECT_NE(train(1, options)[0].param_hash, train(1, small_options())[0].param_hash);
}

TEST(Trainer, LearnsWithAdasumReproducibly) {
  auto options = small_options();
  options.gradient_op = ReduceOp::kAdasum;
  for (const int ranks : {1, 2, 3}) {
    const auto reports = train(ranks, options, 0.0f, 0.05f);
    for (const auto& report : reports) {
      EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
      EXPECT_EQ(report.param_hash, reports[0].param_hash);
      EXPECT_EQ(report.losses, reports[0].losses);
    }
    EXPECT_EQ(train(ranks, options, 0.0f, 0.05f)[0].param_hash, reports[0].param_hash);
  }
}

TEST(Trainer, LearnsWithAdamWOnAnyNumberOfRanks) {
  std::vector<float> alone;
  for (const int ranks : {1, 3})
    testing::run_ranks(ranks, [&](Context& context) {
      set_compute_threads(1);
      const auto model = make_small_model();
      AdamW optimizer(model->parameters(), {.learning_rate = 0.01f});
      const TrainReport report =
          Trainer(context, *model, optimizer, kTrainSet, kTestSet, small_options()).run();
      EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
      EXPECT_EQ(optimizer.steps(), static_cast<std::int64_t>(report.steps));
      if (ranks == 1) alone = report.losses;
      expect_close(report.losses, alone);
    });
}

TEST(Trainer, LearnsFromCompressedGradients) {
  auto options = small_options();
  for (const Compression& compression :
       {Compression{.kind = Compression::Kind::kPowerSgd, .rank = 1},
        Compression{.kind = Compression::Kind::kTopK, .fraction = 0.1}}) {
    options.compression = compression;
    const auto reports = train(3, options);
    EXPECT_GT(reports[0].test_accuracy, 0.6);
    EXPECT_GT(reports[0].compression.compression_rate(), 1.5);
    EXPECT_GT(reports[0].compression.relative_error(), 0);
    EXPECT_EQ(reports[0].control_messages_per_step, 0);
    EXPECT_EQ(train(3, options)[1].param_hash, reports[0].param_hash);
  }
}

// The wire type rounds gradients, but not the loss.
TEST(Trainer, LearnsFromRoundedGradients) {
  const testing::RunOptions over_messages{
      .environment = {"HORO_ALGORITHM=ring", "HORO_ALLREDUCE=ring"}};
  const auto train_with = [&](const TrainerOptions& options) {
    return train(3, options, 0.0f, 0.1f, over_messages)[0];
  };
  const auto exact = train_with(small_options());
  std::vector<TrainerOptions> narrow(3, small_options());
  narrow[0].wire = DataType::kBFloat16;
  narrow[1].wire = DataType::kFloat16;
  narrow[2].compression.kind = Compression::Kind::kInt8;
  for (const TrainerOptions& options : narrow) {
    const auto report = train_with(options);
    EXPECT_EQ(report.losses[0], exact.losses[0]);
    EXPECT_NE(report.param_hash, exact.param_hash);
    EXPECT_NEAR(report.losses.back(), exact.losses.back(), 0.1f * exact.losses.back());
    EXPECT_GT(report.test_accuracy, 0.6);
  }
}

TEST(Trainer, AccumulatedPassesMatchWholeBatches) {
  auto options = small_options();
  options.steps = 30;
  options.global_batch = 26;  // the parts have different sizes
  for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kAdasum}) {
    options.gradient_op = op;
    for (const int ranks : {1, 2, 3}) {
      options.accumulate = 1;
      const auto whole = train(ranks, options, 0.3f)[0];
      options.accumulate = 4;
      const auto reports = train(ranks, options, 0.3f);
      for (const auto& report : reports) {
        expect_close(report.losses, whole.losses);
        EXPECT_EQ(report.param_hash, reports[0].param_hash);
      }
      EXPECT_EQ(train(ranks, options, 0.3f)[0].param_hash, reports[0].param_hash);
    }
  }
}

TEST(Trainer, ClippingDoesNotDependOnNumberOfRanks) {
  auto options = small_options();
  options.clip_norm = 0.5;
  const auto alone = train(1, options)[0];
  EXPECT_GT(alone.clipped_steps, 0u);
  EXPECT_LT(alone.losses.back(), 0.8f * alone.losses.front());
  EXPECT_NE(alone.losses.back(), train(1, small_options())[0].losses.back());
  for (const int ranks : {2, 3})
    for (const auto& report : train(ranks, options)) {
      EXPECT_EQ(report.clipped_steps, alone.clipped_steps);
      expect_close(report.losses, alone.losses);
    }
}

TEST(Trainer, SkipsNonFiniteStepsOnAllRanks) {
  const PoisonedDataset train_set(480, 1);
  auto options = small_options();
  options.max_skipped = 1;
  std::vector<TrainReport> reports(3);
  testing::run_ranks(3, [&](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
    reports[static_cast<std::size_t>(context.rank())] =
        Trainer(context, *model, optimizer, train_set, kTestSet, options).run();
  });
  for (const auto& report : reports) {
    EXPECT_EQ(report.skipped_steps, options.epochs);  // once per epoch
    EXPECT_EQ(report.param_hash, reports[0].param_hash);
    EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
  }
}

/// Sample 7 cannot be read.
class DamagedDataset : public BarsDataset {
 public:
  using BarsDataset::BarsDataset;
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    if (index == 7) throw Error("bars.bin: is damaged");
    return BarsDataset::copy_sample(index, values);
  }
};

std::vector<TrainReport> train_on_damaged(int ranks, BadSamples policy) {
  const DamagedDataset train_set(480, 1), test_set(150, 2);
  auto options = small_options();
  options.loader.bad_samples = policy;
  std::vector<TrainReport> reports(static_cast<std::size_t>(ranks));
  testing::run_ranks(ranks, [&](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
    reports[static_cast<std::size_t>(context.rank())] =
        Trainer(context, *model, optimizer, train_set, test_set, options).run();
  });
  return reports;
}

TEST(Trainer, SkipsBadSamplesWithoutChangingTheWeightsOfOthers) {
  const auto alone = train_on_damaged(1, BadSamples::kSkip)[0];
  EXPECT_EQ(alone.bad_samples, 2 * 2u);  // once per epoch and evaluation
  for (const int ranks : {2, 3})
    for (const auto& report : train_on_damaged(ranks, BadSamples::kSkip)) {
      expect_close(report.losses, alone.losses);
      EXPECT_EQ(report.bad_samples, alone.bad_samples);
    }
}

TEST(Trainer, ErrorOfASampleEndsTrainingWithItsName) {
  try {
    (void)train_on_damaged(2, BadSamples::kFatal);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 7 cannot be read: bars.bin: is damaged"));
  }
}

TEST(Trainer, EndsAfterTooManyNonFiniteSteps) {
  auto options = small_options();
  options.max_skipped = 2;
  try {
    (void)train(2, options, 0.0f, std::numeric_limits<float>::max());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("of rank 0 is"));
    EXPECT_THAT(error.what(), HasSubstr("2 steps before it were skipped"));
  }
}

TEST(Trainer, SendsNoControlMessagesInSteadyState) {
  for (const auto& report : train(3, small_options()))
    EXPECT_EQ(report.control_messages_per_step, 0);
}

TEST(Trainer, StartsFromTheParametersOfRankZero) {
  testing::run_ranks(3, [](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model();
    initialise(*model, static_cast<std::uint64_t>(100 + context.rank()));
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
    auto options = small_options();
    options.steps = 2;
    // run() ends with a comparison of the parameters.
    EXPECT_NO_THROW(Trainer(context, *model, optimizer, kTrainSet, kTestSet, options).run());
  });
}

TEST(Trainer, StopsAllRanksIfTheLossIsNotFinite) {
  try {
    (void)train(2, small_options(), 0.0f, std::numeric_limits<float>::max());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("diverged"));
  }
}

TEST(Trainer, RejectsInvalidOptions) {
  testing::run_ranks(2, [](Context& context) {
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
    const auto message_of = [&](const TrainerOptions& options) -> std::string {
      try {
        Trainer trainer(context, *model, optimizer, kTrainSet, kTestSet, options);
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_THAT(message_of({.global_batch = 1}), HasSubstr("at least 2"));
    EXPECT_THAT(message_of({.global_batch = 481}), HasSubstr("smaller global batch"));
    EXPECT_THAT(message_of({.global_batch = 7, .accumulate = 4}), HasSubstr("4 passes"));
    EXPECT_THAT(message_of({.last_batch = LastBatch::kPartial}), HasSubstr("kPad"));
    EXPECT_THAT(message_of({.epochs = 0}), HasSubstr("0 epochs"));
    EXPECT_EQ(message_of({.global_batch = 480}), "no error");
  });
}

TEST(Trainer, EvaluatesAfterStepsOnRequest) {
  const MemoryFile file;
  auto options = small_options();
  options.steps = 25;
  options.evaluate_every = 10;
  options.progress = {.file = file.file()};
  (void)train(2, options);
  const std::string shown = file.text();
  for (const char* line :
       {"step 10: test accuracy", "step 20: test accuracy", "step 25: test accuracy"})
    EXPECT_THAT(shown, HasSubstr(line));
  EXPECT_EQ(shown.find("epoch 1: test accuracy"), std::string::npos) << shown;
}

TEST(Trainer, OnlyRankZeroShowsProgress) {
  const MemoryFile file;
  auto options = small_options();
  options.progress = {.file = file.file(), .log_every = 10};
  (void)train(2, options);
  const std::string shown = file.text();
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 4 + 2 + 1) << shown;
  EXPECT_THAT(shown, HasSubstr("epoch 2/2  step 20/20"));
  EXPECT_THAT(shown, HasSubstr("epoch 2: test accuracy"));
  EXPECT_THAT(shown, HasSubstr("exposed communication"));
}

TEST(Trainer, NamesDifferingTrainerOptionsOnEveryRank) {
  struct Difference {
    std::string other;  // the value of rank 2
    std::function<void(TrainerOptions&)> change;
  };
  const std::vector<Difference> differences = {
      {"epochs = 3", [](auto& o) { o.epochs = 3; }},
      {"global_batch = 48", [](auto& o) { o.global_batch = 48; }},
      {"is_shuffled = false", [](auto& o) { o.is_shuffled = false; }},
      {"sample_weights = ",
       [](auto& o) {
         o.sample_weights = std::make_shared<WeightedDraw>(std::vector<double>(480, 1.0));
       }},
      {"last_batch = 2", [](auto& o) { o.last_batch = LastBatch::kPad; }},
      {"shares.weights = [1, 2, 1]",
       [](auto& o) {
         o.shares.weights = {1, 2, 1};
       }},
      {"shares.automatic = true", [](auto& o) { o.shares.automatic = true; }},
      {"shares.every = 3", [](auto& o) { o.shares.every = 3; }},
      {"steps = 4", [](auto& o) { o.steps = 4; }},
      {"warm_up_steps 7",
       [](auto& o) { o.learning_rate = LearningRateSchedule{.warm_up_steps = 7}; }},
      {"gradient_op = adasum", [](auto& o) { o.gradient_op = ReduceOp::kAdasum; }},
      {"seed = 6", [](auto& o) { o.seed = 6; }},
      {"evaluate_every = 7", [](auto& o) { o.evaluate_every = 7; }},
      {"callbacks = 1", [](auto& o) { o.callbacks = {std::make_shared<TrainerCallback>()}; }},
      {"evaluation_batch = 32", [](auto& o) { o.evaluation_batch = 32; }},
      {"accumulate = 2", [](auto& o) { o.accumulate = 2; }},
      {"clip_norm = 0.5", [](auto& o) { o.clip_norm = 0.5; }},
      {"max_skipped = 1", [](auto& o) { o.max_skipped = 1; }},
      {"loss = MeanSquaredError", [](auto& o) { o.loss = std::make_shared<MeanSquaredError>(); }}};
  for (const Difference& difference : differences)
    testing::run_ranks(3, [&](Context& context) {
      auto options = small_options();
      if (context.rank() == 2) difference.change(options);
      const auto model = make_small_model(0);
      Sgd optimizer(model->parameters(), {});
      Trainer trainer(context, *model, optimizer, kTrainSet, kTestSet, options);
      try {
        trainer.run();
        ADD_FAILURE() << "trained with " << difference.other;
      } catch (const MismatchError& error) {
        EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr(difference.other),
                                                   HasSubstr("on rank 0"), HasSubstr("on rank 2")));
      }
    });
}

TEST(Trainer, NamesDifferingDataSetSizesOnEveryRank) {
  const BarsDataset smaller(360, 1);
  testing::run_ranks(2, [&](Context& context) {
    const auto model = make_small_model(0);
    Sgd optimizer(model->parameters(), {});
    Trainer trainer(context, *model, optimizer, context.rank() == 0 ? kTrainSet : smaller, kTestSet,
                    small_options());
    try {
      trainer.run();
      ADD_FAILURE() << "trained";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("training samples = 480 on rank 0, training samples = 360 on rank 1"));
    }
  });
}

}  // namespace
}  // namespace horo::ops
