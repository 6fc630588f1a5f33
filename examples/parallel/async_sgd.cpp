// Asynchronous SGD with parameter servers: the last ranks are servers, the others are workers. A
// worker does not wait for the others unless it is more than --staleness steps ahead of the slowest
// one. The workers have different samples.
//
//   hororun -np 4 build/release/bin/async_sgd --async-servers 1 --staleness 4
#include <horo/horo.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "examples/command_line.h"
#include "examples/parallel/teacher.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/loss.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "ops/parallel/parameter_server.h"

namespace {

using namespace horo::examples;
using namespace horo::ops;

constexpr std::size_t kHidden = 48, kBatch = 32;

struct Options {
  unsigned steps = 300;
  int servers = 1;
  std::uint64_t staleness = 4;
  unsigned slow_ms = 0;
};

std::unique_ptr<Sequential> make_model() {
  auto model = std::make_unique<Sequential>();
  model->add("fc1", Linear({.in_features = kInputs, .out_features = kHidden}))
      .add("gelu", Gelu())
      .add("fc2", Linear({.in_features = kHidden, .out_features = kOutputs}));
  return model;
}

/// The mean loss of samples that no worker trains with.
double test_loss(Sequential& model) {
  Samples samples = make_samples(1'000'000'000, 512);
  BatchScore score;
  float loss = 0;
  MeanSquaredError().backward(cpu_backend(), model.forward(std::move(samples.inputs), {}),
                              samples.targets, 512, &score, &loss);
  return static_cast<double>(loss);
}

void work(horo::Context& ctx, const ParameterServerOptions& servers, const Options& options) {
  const auto model = make_model();
  const double loss_before = test_loss(*model);
  const auto workers = static_cast<std::uint64_t>(ctx.size() - servers.servers);
  const auto rank = static_cast<std::uint64_t>(ctx.rank());
  ParameterWorker worker(ctx, *model, servers);
  for (unsigned step = 0; step < options.steps; ++step) {
    worker.pull();
    Samples batch = make_samples((step * workers + rank) * kBatch, kBatch);
    Tensor output = model->forward(std::move(batch.inputs), {.training = true});
    BatchScore score;
    Tensor gradient = MeanSquaredError().backward(cpu_backend(), std::move(output), batch.targets,
                                                  kBatch, &score);
    model->backward(std::move(gradient), {});
    if (rank + 1 == workers && options.slow_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(options.slow_ms));
    worker.push();
  }
  worker.finish();
  if (rank == 0)
    std::printf("loss %.5f before training, %.5f after it\n", loss_before, test_loss(*model));
}

void serve(horo::Context& ctx, const ParameterServerOptions& servers) {
  std::size_t values = 0;
  for (const Parameter* parameter : make_model()->parameters()) values += parameter->value.count();
  ParameterServer server(ctx, servers, values, [](std::vector<Parameter*> part) {
    return std::make_unique<Sgd>(std::move(part), SgdOptions{.learning_rate = 0.1f});
  });
  std::printf("server rank %d serves %d workers\n", ctx.rank(), ctx.size() - servers.servers);
  std::fflush(stdout);
  const ServerReport report = server.run();
  std::printf(
      "server rank %d: %llu updates, workers at most %llu steps ahead, %llu waits, gradients at "
      "most %llu updates old\n",
      ctx.rank(), static_cast<unsigned long long>(report.updates),
      static_cast<unsigned long long>(report.largest_lead),
      static_cast<unsigned long long>(report.waits),
      static_cast<unsigned long long>(report.largest_age));
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    Options options;
    boost::program_options::options_description description("Options");
    auto add = description.add_options();
    add("steps", count_value(options.steps, "steps", 1, 1'000'000), "steps of each worker");
    add("async-servers", count_value(options.servers, "async-servers", 1, 1024),
        "ranks that keep the parameters; the others are workers");
    add("staleness", count_value(options.staleness, "staleness", 0, 1'000'000),
        "steps that a worker may be ahead of the slowest one");
    add("slow-ms", count_value(options.slow_ms, "slow-ms", 0, 10'000),
        "milliseconds that the last worker sleeps in each step");
    if (!parse_command_line(argc, argv, description)) {
      std::cout << "Trains a model with parameter servers and without synchronous steps.\n\n"
                   "Example:\n  "
                << launch_line(argv[0], 4, "--async-servers 1 --staleness 4") << "\n\n"
                << description;
      return 0;
    }
    code = 1;
    horo::Context ctx = horo::init();
    const ParameterServerOptions servers{.servers = options.servers,
                                         .staleness = options.staleness};
    if (is_server(ctx, servers))
      serve(ctx, servers);
    else
      work(ctx, servers, options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "async_sgd: %s\n", error.what());
    return code;
  }
}
