#include "ops/train/update/update_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/adamw.h"
#include "ops/optim/lamb.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "ops/train/update/sharded_update.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;
using MakeAnyOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>)>;

/// The report of a rank, and what training left in its optimizer.
struct MethodResult {
  TrainReport report;
  std::vector<std::vector<float>> states;
  std::vector<std::string> names;
};

TrainerOptions method_options() {
  return {.epochs = 2, .global_batch = 26, .seed = 5, .evaluation_batch = 64};
}

MakeAnyOptimizer momentum_sgd(float momentum = 0.9f) {
  return [momentum](std::vector<Parameter*> parameters) {
    return std::make_unique<Sgd>(
        std::move(parameters),
        SgdOptions{.learning_rate = 0.1f, .momentum = momentum, .weight_decay = 1e-3f});
  };
}

MakeAnyOptimizer adamw() {
  return [](std::vector<Parameter*> parameters) {
    auto optimizer =
        std::make_unique<AdamW>(std::move(parameters), AdamWOptions{.learning_rate = 0.01f});
    optimizer->set_rules({{.pattern = "output.*", .learning_rate = 0.5f},
                          {.vectors_only = true, .weight_decay = 0}});
    return optimizer;
  };
}

std::vector<MethodResult> train_with(int ranks, const TrainerOptions& options,
                                     const MakeAnyOptimizer& make,
                                     const testing::RunOptions& run = {}) {
  static const BarsDataset train_set(480, 1), test_set(150, 2);
  std::vector<MethodResult> results(static_cast<std::size_t>(ranks));
  const auto train_rank = [&](Context& context) {
    set_compute_threads(1);
    const auto model = make_small_model(0.1f);
    const auto optimizer = make(model->parameters());
    MethodResult& result = results[static_cast<std::size_t>(context.rank())];
    result.report = Trainer(context, *model, *optimizer, train_set, test_set, options).run();
    for (const Optimizer::State& state : optimizer->states())
      for (const Tensor& values : state.tensors)
        result.states.emplace_back(values.values().begin(), values.values().end());
    for (const Parameter* parameter : optimizer->parameters())
      result.names.push_back(parameter->name);
  };
  testing::run_ranks(ranks, train_rank, run);
  return results;
}

std::string refusal_of(const TrainerOptions& options, const MakeAnyOptimizer& make) {
  try {
    train_with(2, options, make);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(ShardedOptimizer, TrainsWithTheSameBits) {
  for (const MakeAnyOptimizer& make : {momentum_sgd(), adamw()})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      TrainerOptions options = method_options();
      options.accumulate = ranks == 2 ? 3 : 1;
      const auto plain = train_with(ranks, options, make);
      options.shard_optimizer = true;
      const auto sharded = train_with(ranks, options, make);
      for (std::size_t rank = 0; rank < sharded.size(); ++rank) {
        EXPECT_EQ(sharded[rank].report.losses, plain[0].report.losses) << ranks << " ranks";
        EXPECT_EQ(sharded[rank].report.param_hash, plain[0].report.param_hash);
        EXPECT_EQ(sharded[rank].states, plain[0].states);
        EXPECT_EQ(sharded[rank].names, plain[0].names);
      }
    }
}

// Between nodes, the order of sums differs.
TEST(ShardedOptimizer, TrainsAlikeBetweenNodes) {
  const testing::RunOptions nodes{.environment = {"HORO_RANKS_PER_NODE=2"}};
  TrainerOptions options = method_options();
  options.steps = 12;
  const auto plain = train_with(5, options, adamw(), nodes);
  options.shard_optimizer = true;
  for (const MethodResult& result : train_with(5, options, adamw(), nodes))
    for (std::size_t i = 0; i < 12; ++i)
      EXPECT_NEAR(result.report.losses[i], plain[0].report.losses[i],
                  1e-4f * plain[0].report.losses[i]);
}

TEST(ShardedOptimizer, DividesTheMemoryOfStates) {
  TrainerOptions options = method_options();
  options.steps = 2;
  const std::uint64_t whole = train_with(1, options, adamw())[0].report.optimizer_state.bytes;
  options.shard_optimizer = true;
  for (const int ranks : {1, 3}) {
    std::uint64_t sum = 0;
    for (const MethodResult& result : train_with(ranks, options, adamw())) {
      const OptimizerStateFigures& figures = result.report.optimizer_state;
      EXPECT_EQ(figures.whole_bytes, whole);
      EXPECT_NEAR(static_cast<double>(figures.bytes), static_cast<double>(whole) / ranks, 512);
      sum += figures.bytes;
    }
    EXPECT_EQ(sum, whole);
  }
}

// The squares of the norm are added in another order.
TEST(ShardedOptimizer, ClipsByTheNormOfAllShards) {
  TrainerOptions options = method_options();
  options.clip_norm = 0.5;
  const auto plain = train_with(3, options, momentum_sgd())[0].report;
  options.shard_optimizer = true;
  for (const MethodResult& result : train_with(3, options, momentum_sgd())) {
    EXPECT_GT(plain.clipped_steps, 0u);
    EXPECT_EQ(result.report.clipped_steps, plain.clipped_steps);
    ASSERT_EQ(result.report.losses.size(), plain.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(result.report.losses[i], plain.losses[i], 1e-4f * plain.losses[i]) << i;
  }
}

TEST(ShardedOptimizer, SkipsNonFiniteStepsOnAllRanks) {
  const PoisonedDataset train_set(480, 1);
  const BarsDataset test_set(150, 2);
  TrainerOptions options = method_options();
  options.max_skipped = 3;
  const auto train = [&](bool is_sharded) {
    options.shard_optimizer = is_sharded;
    std::vector<TrainReport> reports(3);
    testing::run_ranks(3, [&](Context& context) {
      set_compute_threads(1);
      const auto model = make_small_model();
      const auto optimizer = adamw()(model->parameters());
      reports[static_cast<std::size_t>(context.rank())] =
          Trainer(context, *model, *optimizer, train_set, test_set, options).run();
    });
    return reports;
  };
  const auto plain = train(false), sharded = train(true);
  EXPECT_EQ(plain[0].skipped_steps, 2u);
  for (const TrainReport& report : sharded) {
    EXPECT_EQ(report.skipped_steps, 2u);
    EXPECT_EQ(report.param_hash, plain[0].param_hash);
  }
}

TEST(ShardedOptimizer, ExchangesSeveralBuckets) {
  testing::run_ranks(3, [](Context& context) {
    const auto model = make_small_model();
    const auto parameters = model->parameters();
    Sgd optimizer(parameters, {.learning_rate = 0.5f, .momentum = 0.5f});
    std::vector<std::vector<float>> expected;
    for (const Parameter* parameter : parameters)
      expected.emplace_back(parameter->value.values().begin(), parameter->value.values().end());
    StepScalars scalars;
    std::vector<float> loss(1);
    const std::vector<NamedTensor> tensors = {{"loss", TensorView(loss)}};
    GradientSync scalar_sync(context, tensors);
    ShardedUpdate update(context, optimizer, scalar_sync, scalars, {.bucket_bytes = 400});
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        for (std::size_t k = 0; k < parameters[i]->gradient.count(); ++k)
          parameters[i]->gradient.data()[k] =
              static_cast<float>(context.rank()) + static_cast<float>(i * 64 + k % 64);
      update.ready(parameters.size());
      for (std::size_t i = parameters.size(); i-- > 0;) update.ready(i);
      update.exchange();
      update.update();
      EXPECT_EQ(update.outcomes(false).size(), 1u);
    }
    update.finish();
    // The gradient is the same in each step: the momentum after it is 1, 1.5 and 1.75 gradients.
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        const float gradient = 1 + static_cast<float>(i * 64 + k % 64);
        float value = expected[i][k];
        for (const float momentum : {1.0f, 1.5f, 1.75f}) value -= 0.5f * (momentum * gradient);
        EXPECT_EQ(parameters[i]->value.values()[k], value) << parameters[i]->name << " " << k;
        EXPECT_EQ(optimizer.momentum_buffers()[i].values()[k], 1.75f * gradient);
      }
  });
}

TEST(ShardedOptimizer, RefusesWhatItCannotDo) {
  TrainerOptions options = method_options();
  options.shard_optimizer = true;
  EXPECT_THAT(refusal_of(options,
                         [](auto parameters) {
                           return std::make_unique<Lamb>(std::move(parameters), AdamWOptions{});
                         }),
              HasSubstr("the update needs whole parameters"));
  options.wire = DataType::kBFloat16;
  EXPECT_THAT(refusal_of(options, adamw()), HasSubstr("a sharded optimizer sends float32"));
  options.wire.reset();
  options.gradient_op = ReduceOp::kAdasum;
  EXPECT_THAT(refusal_of(options, adamw()), HasSubstr("a sharded optimizer averages gradients"));
}

}  // namespace
}  // namespace horo::ops
