#include "ops/train/bottleneck/bottleneck_report.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

/// Waits for 20 ms on rank 1 after each step, and sends a signal to this process after step 6.
class DelaysAndSignals : public TrainerCallback {
 public:
  void after_step(TrainingRun& run) override {
    if (run.context.rank() != 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (run.steps == 6) std::raise(SIGUSR1);
  }
};

TrainReport train_with_report(Context& context, bool has_report, std::FILE* text) {
  set_compute_threads(1);
  const BarsDataset train_set(96, 1), test_set(24, 2);
  const auto model = make_small_model(0.0f);
  Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
  TrainerOptions options{.epochs = 3, .global_batch = 24};
  if (has_report)
    options.callbacks = {std::make_shared<BottleneckReport>(BottleneckReportOptions{.text = text}),
                         std::make_shared<DelaysAndSignals>()};
  return Trainer(context, *model, optimizer, train_set, test_set, options).run();
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(BottleneckReport, FindsTheCauseAtTheEndAndAfterASignal) {
  std::FILE* const text = std::tmpfile();
  std::string hash;
  testing::run_ranks(2, [&](Context& context) {
    const TrainReport plain = train_with_report(context, false, nullptr);
    EXPECT_FALSE(plain.bottlenecks);
    const TrainReport report = train_with_report(context, true, text);
    EXPECT_EQ(report.param_hash, plain.param_hash);  // measuring changes no parameter
    ASSERT_TRUE(report.bottlenecks);
    const Diagnosis& diagnosis = report.bottlenecks->diagnosis;
    ASSERT_FALSE(diagnosis.recommendations.empty());
    EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kLogging);
    EXPECT_GT(diagnosis.recommendations[0].regained_ms, 10);
    EXPECT_GT(diagnosis.ranks[0].straggler_wait_ms, diagnosis.ranks[1].straggler_wait_ms);
    EXPECT_GT(report.bottlenecks->costs.communication->exchange.milliseconds, 0);
    EXPECT_TRUE(diagnosis.model);
  });
  std::rewind(text);
  std::string printed(100000, '\0');
  printed.resize(std::fread(printed.data(), 1, printed.size(), text));
  std::fclose(text);
  EXPECT_EQ(occurrences(printed, "bottleneck report: "), 2u) << printed;
  EXPECT_EQ(occurrences(printed, "  1. progress lines and callbacks take "), 2u) << printed;
}

/// Trains with a report that is not printed, and without one: the parameters must be the same.
JobBottlenecks report_of(Context& context, const std::function<void(TrainerOptions&)>& change) {
  set_compute_threads(1);
  const auto train = [&](bool has_report) {
    const BarsDataset train_set(96, 1), test_set(24, 2);
    const auto model = make_small_model(0.0f);
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
    TrainerOptions options{.epochs = 3, .global_batch = 24};
    change(options);
    if (has_report)
      options.callbacks = {
          std::make_shared<BottleneckReport>(BottleneckReportOptions{.text = nullptr})};
    return Trainer(context, *model, optimizer, train_set, test_set, options).run();
  };
  const TrainReport report = train(true);
  EXPECT_EQ(report.param_hash, train(false).param_hash);
  return report.bottlenecks.value();
}

TEST(BottleneckReport, HasAModelOfAShardedOptimizer) {
  testing::run_ranks(2, [&](Context& context) {
    const auto [costs, diagnosis] =
        report_of(context, [](TrainerOptions& options) { options.shard_optimizer = true; });
    ASSERT_TRUE(costs.communication);
    EXPECT_TRUE(costs.is_sharded);
    EXPECT_GT(costs.communication->exchange.milliseconds, 0);
    EXPECT_GT(costs.communication->gather_ms, 0);
    EXPECT_GT(costs.communication->bandwidth, 0);
    EXPECT_GT(costs.communication->exchange.bytes, 0);
    ASSERT_TRUE(diagnosis.model);
    EXPECT_GT(diagnosis.model->gather_ms, 0);
    EXPECT_FALSE(diagnosis.model->is_lower_bound);
  });
}

TEST(BottleneckReport, HasAModelOfLocalSteps) {
  for (const LocalSteps& steps : {local_sgd(4), diloco(4, 2, 1)})
    testing::run_ranks(2, [&](Context& context) {
      const auto [costs, diagnosis] =
          report_of(context, [&](TrainerOptions& options) { options.local_steps = steps; });
      ASSERT_TRUE(costs.communication);
      EXPECT_EQ(costs.local_steps.count, 4u);
      EXPECT_EQ(costs.last_step, 12u);
      EXPECT_GE(costs.communication->exchange.buckets, steps.fragments);
      ASSERT_TRUE(diagnosis.model);
      EXPECT_EQ(diagnosis.model->window(), steps.overlap > 0 ? 2 : 0);
    });
}

}  // namespace
}  // namespace horo::ops
