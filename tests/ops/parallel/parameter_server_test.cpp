#include "ops/parallel/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "horo/testing.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/loss.h"
#include "ops/optim/lamb.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

constexpr LinearOptions kModel{.in_features = 5, .out_features = 3};
constexpr std::size_t kValues = 5 * 3 + 3;

ParameterServer::MakeOptimizer server_sgd(float learning_rate, float momentum = 0) {
  return [=](std::vector<Parameter*> parameters) {
    return std::make_unique<Sgd>(std::move(parameters),
                                 SgdOptions{.learning_rate = learning_rate, .momentum = momentum});
  };
}

/// Targets are a fixed linear function of the inputs, so the loss can become zero.
double gradient_step(Linear& model, const Linear& truth_of, std::uint32_t seed) {
  Linear truth(kModel);
  const Tensor x = varied_tensor({8, 5}, seed);
  assign(truth.weight().value, values_of(const_cast<Linear&>(truth_of).weight().value));
  const Tensor target = truth.forward(x.clone(), {});
  BatchScore score;
  float loss = 0;
  Tensor gradient = MeanSquaredError().backward(
      cpu_backend(), model.forward(x.clone(), {.training = true}), target, 8, &score, &loss);
  model.backward(std::move(gradient), {});
  return static_cast<double>(loss);
}

Linear true_model() {
  Linear truth(kModel);
  assign(truth.weight().value, varied_values(15, 99));
  return truth;
}

// The last worker sleeps in each step; the others run ahead until they have to wait.
TEST(ParameterServers, ConvergeWithOneSlowWorker) {
  for (const int servers : {1, 2}) {
    const ParameterServerOptions options{.servers = servers, .staleness = 3};
    constexpr int kSteps = 60;
    std::mutex mutex;
    std::vector<std::vector<float>> finals;
    run_ranks(3 + servers, [&](Context& ctx) {
      const Linear truth = true_model();
      if (is_server(ctx, options)) {
        const ServerReport report = ParameterServer(ctx, options, kValues, server_sgd(0.15f)).run();
        EXPECT_EQ(report.updates, 3u * kSteps);
        EXPECT_EQ(report.steps, std::vector<std::uint64_t>(3, kSteps));
        EXPECT_EQ(report.largest_lead, options.staleness);  // the bound is reached, and holds
        EXPECT_GT(report.waits, 0u);
        EXPECT_LE(report.largest_age, 2 * (2 * options.staleness + 1));
        return;
      }
      Linear model(kModel);
      if (ctx.rank() > 0) model.weight().value.fill(7);  // replaced by the values of rank 0
      ParameterWorker worker(ctx, model, options);
      double first = 0, last = 0;
      for (int step = 0; step < kSteps; ++step) {
        worker.pull();
        if (ctx.rank() == 2) std::this_thread::sleep_for(3ms);
        last = gradient_step(model, truth, static_cast<std::uint32_t>(step * 3 + ctx.rank()) + 1);
        if (step == 0) first = last;
        worker.push();
      }
      worker.finish();
      EXPECT_LT(last, 0.02 * first);
      std::vector<float> values = values_of(model.weight().value);
      const std::scoped_lock lock(mutex);
      finals.push_back(std::move(values));
    });
    ASSERT_EQ(finals.size(), 3u);
    EXPECT_EQ(finals[0], finals[1]);
    EXPECT_EQ(finals[0], finals[2]);
    expect_close(finals[0], in_double(varied_values(15, 99)), 0.1);
  }
}

// One worker sees its own updates in each step, so the result is that of plain SGD, also if two
// servers have parts of the parameters.
TEST(ParameterServers, OneWorkerTrainsAsWithoutServers) {
  Linear alone(kModel);
  Sgd optimizer(alone.parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
  const Linear truth = true_model();
  for (int step = 0; step < 20; ++step) {
    gradient_step(alone, truth, static_cast<std::uint32_t>(step) + 1);
    optimizer.step();
  }
  for (const int servers : {1, 2, 3})
    run_ranks(1 + servers, [&](Context& ctx) {
      const ParameterServerOptions options{.servers = servers, .staleness = 0};
      if (is_server(ctx, options)) {
        ParameterServer(ctx, options, kValues, server_sgd(0.1f, 0.9f)).run();
        return;
      }
      Linear model(kModel);
      ParameterWorker worker(ctx, model, options);
      for (int step = 0; step < 20; ++step) {
        worker.pull();
        gradient_step(model, truth, static_cast<std::uint32_t>(step) + 1);
        worker.push();
      }
      worker.finish();
      EXPECT_EQ(values_of(model.weight().value), values_of(alone.weight().value));
      EXPECT_EQ(values_of(model.bias().value), values_of(alone.bias().value));
    });
}

TEST(ParameterServers, WorkersMayMakeDifferentNumbersOfSteps) {
  const ParameterServerOptions options{.staleness = 1};
  run_ranks(3, [&](Context& ctx) {
    if (is_server(ctx, options)) {
      const ServerReport report = ParameterServer(ctx, options, kValues, server_sgd(0.1f)).run();
      EXPECT_EQ(report.steps, (std::vector<std::uint64_t>{12, 3}));
      return;
    }
    const Linear truth = true_model();
    Linear model(kModel);
    ParameterWorker worker(ctx, model, options);
    for (int step = 0; step < (ctx.rank() == 0 ? 12 : 3); ++step) {
      worker.pull();
      gradient_step(model, truth, 1);
      worker.push();
    }
    worker.finish();
  });
}

/// The errors of the ranks of a job in which rank 1 of 3 does not take part to the end.
std::vector<std::string> errors_of_lost_worker(const std::function<void(ParameterWorker&)>& end,
                                               const testing::RunOptions& run = {}) {
  const ParameterServerOptions options{.staleness = 1};
  std::vector<std::string> texts(3);
  EXPECT_ANY_THROW(run_ranks(
      3,
      [&](Context& ctx) {
        try {
          if (is_server(ctx, options)) {
            ParameterServer(ctx, options, kValues, server_sgd(0.1f)).run();
            return;
          }
          Linear model(kModel);
          const Linear truth = true_model();
          ParameterWorker worker(ctx, model, options);
          for (int step = 0; step < 100; ++step) {
            worker.pull();
            gradient_step(model, truth, 1);
            if (ctx.rank() == 1 && step == 3) return end(worker);
            worker.push();
          }
          worker.finish();
        } catch (const Error& error) {
          texts[static_cast<std::size_t>(ctx.rank())] = error.what();
          throw;
        }
      },
      run));
  return texts;
}

TEST(ParameterServers, EndedWorkerIsNamed) {
  const auto texts = errors_of_lost_worker([](ParameterWorker&) {});
  EXPECT_THAT(texts[2], AllOf(HasSubstr("'parameter_server.request' from rank 1"),
                              HasSubstr("rank 1 (host thread-node-0) has shut down without calling "
                                        "send()")));
  EXPECT_THAT(texts[0], HasSubstr("rank"));  // fails, and does not wait for ever
}

TEST(ParameterServers, FailedWorkerIsNamed) {
  const auto texts =
      errors_of_lost_worker([](ParameterWorker&) { throw Error("the disk is full"); });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 1"), HasSubstr("failed")));
  EXPECT_THAT(texts[2], AllOf(HasSubstr("rank 1"), HasSubstr("failed")));
}

TEST(ParameterServers, SilentWorkerIsNamedAfterTimeout) {
  testing::RunOptions run;
  run.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  const auto texts =
      errors_of_lost_worker([](ParameterWorker&) { std::this_thread::sleep_for(1200ms); }, run);
  // Without CPU time for the watchdog, the error of the server's call comes first.
  for (const std::size_t rank : {0, 2})
    EXPECT_THAT(texts[rank], ::testing::ContainsRegex(
                                 "rank 1 .*never called send\\(\\) for "
                                 "'parameter_server.request \\(rank 1 to rank 2\\)'|"
                                 "'parameter_server.* for rank [12] .* to call send\\(\\)"));
}

TEST(ParameterServers, RefuseInvalidOptions) {
  run_ranks(2, [](Context& ctx) {
    Linear model(kModel);
    for (const int servers : {0, 2}) {
      const ParameterServerOptions options{.servers = servers};
      EXPECT_THAT(
          message_of<InvalidArgument>([&] { ParameterWorker worker(ctx, model, options); }),
          HasSubstr("options.servers is " + std::to_string(servers) + " in a job of 2 ranks"));
    }
    if (ctx.rank() == 0) {
      EXPECT_THAT(message_of<InvalidArgument>(
                      [&] { ParameterServer server(ctx, {}, kValues, server_sgd(0.1f)); }),
                  HasSubstr("rank 0 is a worker"));
    } else {
      EXPECT_THAT(message_of<InvalidArgument>([&] { ParameterWorker worker(ctx, model, {}); }),
                  HasSubstr("rank 1 is a server"));
      EXPECT_THAT(message_of<InvalidArgument>([&] {
                    ParameterServer server(ctx, {}, kValues, [](std::vector<Parameter*> part) {
                      return std::make_unique<Lamb>(std::move(part), AdamWOptions{});
                    });
                  }),
                  HasSubstr("needs whole parameters"));
    }
  });
}

}  // namespace
}  // namespace horo::ops
