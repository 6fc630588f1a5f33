#include "ops/train/callbacks/callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/sgd.h"
#include "ops/train/callbacks/early_stop.h"
#include "ops/train/callbacks/stop_on_signal.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/requested_stop.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Callbacks = std::vector<std::shared_ptr<TrainerCallback>>;

const BarsDataset kBars(96, 1);
const BarsDataset kTestBars(30, 2);

TrainerOptions options_with(Callbacks callbacks) {
  return {.epochs = 3, .global_batch = 12, .callbacks = std::move(callbacks)};  // 8 steps per epoch
}

TrainReport train(Context& context, const TrainerOptions& options, float learning_rate = 0.1f) {
  set_compute_threads(1);
  const auto model = make_small_model();
  Sgd optimizer(model->parameters(), {.learning_rate = learning_rate});
  return Trainer(context, *model, optimizer, kBars, kTestBars, options).run();
}

/// Writes a line for each call.
class Recorder : public TrainerCallback {
 public:
  Recorder(std::string name, std::vector<std::string>& calls)
      : name_(std::move(name)), calls_(calls) {}
  void restore(TrainingRun& run) override { add("restore", run.steps); }
  void start(TrainingRun& run) override {
    EXPECT_NE(run.sync, nullptr);
    add("start", run.steps);
  }
  void on_outcome(TrainingRun&, std::uint64_t step, const StepOutcome&) override {
    add("outcome", step);
  }
  bool after_evaluation(TrainingRun& run, const Evaluation& evaluation) override {
    EXPECT_EQ(evaluation.count, kTestBars.size());
    add("evaluation", run.steps);
    return false;
  }
  void after_step(TrainingRun& run) override { add("step", run.steps); }
  void finish(TrainingRun& run, TrainReport& report) override {
    EXPECT_FALSE(report.param_hash.empty());
    add("finish", run.steps);
  }

 private:
  void add(const std::string& call, std::uint64_t step) {
    calls_.push_back(name_ + " " + call + " " + std::to_string(step));
  }
  const std::string name_;
  std::vector<std::string>& calls_;
};

TEST(TrainerCallbacks, AreCalledInOrder) {
  testing::run_ranks(2, [](Context& context) {
    std::vector<std::string> calls;
    TrainerOptions options = options_with(
        {std::make_shared<Recorder>("a", calls), std::make_shared<Recorder>("b", calls)});
    options.steps = 3;
    options.evaluate_every = 2;
    (void)train(context, options);
    std::vector<std::string> expected;
    for (const char* call :
         {"restore 0", "start 0", "outcome 1", "step 1", "outcome 2", "evaluation 2", "step 2",
          "outcome 3", "evaluation 3", "step 3", "finish 3"})
      for (const char* name : {"a ", "b "}) expected.push_back(std::string(name) + call);
    EXPECT_EQ(calls, expected);
  });
}

TEST(TrainerCallbacks, StopRequestedByOneRankStopsAllAtTheSameStep) {
  for (const int ranks : {1, 2, 3})
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kAdasum})
      for (const std::size_t passes : {1, 3})
        testing::run_ranks(ranks, [&](Context& context) {
          TrainerOptions options =
              options_with({std::make_shared<RequestedStop>(context.rank() == ranks - 1 ? 5 : 0)});
          options.gradient_op = op;
          options.accumulate = passes;
          const TrainReport report = train(context, options);
          EXPECT_EQ(report.steps, 5u);
          EXPECT_EQ(report.losses.size(), 5u);
          EXPECT_TRUE(report.was_stopped);
        });
}

/// As a callback that resumes after step `steps`.
class ResumesAfter : public TrainerCallback {
 public:
  explicit ResumesAfter(std::uint64_t steps) : steps_(steps) {}
  void restore(TrainingRun& run) override { run.steps = steps_; }

 private:
  const std::uint64_t steps_;
};

TEST(TrainerCallbacks, MayResumeAtAnyStep) {
  testing::run_ranks(2, [](Context& context) {
    std::vector<std::string> calls;
    TrainerOptions options =
        options_with({std::make_shared<ResumesAfter>(22), std::make_shared<Recorder>("", calls)});
    const TrainReport report = train(context, options);
    EXPECT_EQ(report.first_step, 22u);
    EXPECT_EQ(report.steps, 2u);
    EXPECT_EQ(report.epochs, 3u);
    EXPECT_FALSE(report.was_stopped);
    EXPECT_THAT(calls, ElementsAre(" restore 22", " start 22", " outcome 23", " step 23",
                                   " outcome 24", " evaluation 24", " step 24", " finish 24"));

    calls.clear();
    options.callbacks[0] = std::make_shared<ResumesAfter>(24);
    EXPECT_EQ(train(context, options).steps, 0u);
    EXPECT_THAT(calls, ElementsAre(" restore 24", " start 24", " evaluation 24", " finish 24"));

    options.callbacks[0] = std::make_shared<ResumesAfter>(25);
    try {
      (void)train(context, options);
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("resumes after step 25, but ends after 24 steps"));
    }
  });
}

TEST(EarlyStop, EndsTrainingOnceTheLossDoesNotDecrease) {
  testing::run_ranks(2, [](Context& context) {
    const auto stop_after = [&](const EarlyStopOptions& early_stop, float learning_rate) {
      TrainerOptions options = options_with({std::make_shared<EarlyStop>(early_stop)});
      options.epochs = 6;
      return train(context, options, learning_rate).epochs;
    };
    EXPECT_EQ(stop_after({.patience = 1}, 0.0f), 2u);
    EXPECT_EQ(stop_after({.patience = 3}, 0.0f), 4u);
    EXPECT_EQ(stop_after({.patience = 1, .min_decrease = 100}, 0.1f), 2u);
    EXPECT_EQ(stop_after({.patience = 6}, 0.1f), 6u);
  });
  EXPECT_THROW(EarlyStop({.patience = 0}), InvalidArgument);
  EXPECT_THROW(EarlyStop({.min_decrease = -1}), InvalidArgument);
  EXPECT_THROW(EarlyStop({.min_decrease = std::numeric_limits<double>::quiet_NaN()}),
               InvalidArgument);
}

/// Sends a signal to this process after step 4.
class SendsSignal : public TrainerCallback {
 public:
  explicit SendsSignal(int signal) : signal_(signal) {}
  void after_step(TrainingRun& run) override {
    if (run.steps == 4) std::raise(signal_);
  }

 private:
  const int signal_;
};

TEST(StopOnSignal, CompletesTheStepAndFinishes) {
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  testing::run_ranks(2, [](Context& context) {
    std::vector<std::string> calls;
    Callbacks callbacks{std::make_shared<StopOnSignal>(), std::make_shared<Recorder>("", calls)};
    // The handling is that of the process. It must exist on all ranks before one sends the signal.
    context.barrier({.name = "handled"});
    if (context.rank() == 1)
      callbacks.push_back(std::make_shared<SendsSignal>(SIGTERM));
    else
      callbacks.push_back(std::make_shared<TrainerCallback>());
    const TrainReport report = train(context, options_with(callbacks));
    EXPECT_TRUE(report.was_stopped);
    EXPECT_EQ(report.steps, 5u);
    EXPECT_EQ(calls.back(), " finish 5");
    context.barrier({.name = "handled"});
  });
  struct sigaction after {};
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopOnSignal, RefusesSignalsThatCannotBeHandled) {
  for (const int signal : {0, -1, NSIG, SIGKILL, SIGSTOP})
    EXPECT_THROW(StopOnSignal({SIGTERM, signal}), InvalidArgument) << signal;
}

}  // namespace
}  // namespace horo::ops
