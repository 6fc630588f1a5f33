// Pipeline parallelism with data parallelism: the first half of the ranks has the first stage of a
// model, the second half has the second stage. Rank r of the first half forms a pipeline with rank
// r of the second half, through which the micro-batches of its part of each batch pass. The ranks
// of a stage average their gradients in a process set. Losses and weights are those of one rank, up
// to rounding.
//
//   hororun -np 4 build/release/bin/pipeline
#include <horo/horo.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "examples/command_line.h"
#include "examples/parallel/teacher.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/loss.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "ops/parallel/pipeline_stage.h"

namespace {

using namespace horo::examples;
using namespace horo::ops;

constexpr std::size_t kHidden = 48, kBatch = 64;

struct Options {
  unsigned steps = 200;
  std::size_t micro_batches = 4;
};

// The layers of a stage. A single rank has all layers, as one stage.
std::unique_ptr<Sequential> make_stage(bool has_first, bool has_second) {
  auto model = std::make_unique<Sequential>();
  if (has_first)
    model->add("fc1", Linear({.in_features = kInputs, .out_features = kHidden}))
        .add("gelu1", Gelu())
        .add("fc2", Linear({.in_features = kHidden, .out_features = kHidden}));
  if (has_second)
    model->add("gelu2", Gelu())
        .add("fc3", Linear({.in_features = kHidden, .out_features = kOutputs}));
  return model;
}

std::vector<int> ranks_from(int first, int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

void train(horo::Context& ctx, const Options& options) {
  const int stages = std::min(ctx.size(), 2), width = ctx.size() / stages;
  HORO_CHECK(width * stages == ctx.size(), "pipeline: the number of ranks must be 1 or even");
  const int stage = ctx.rank() / width, column = ctx.rank() % width;
  HORO_CHECK(kBatch % (static_cast<std::size_t>(width) * options.micro_batches) == 0,
             "pipeline: the batch of 64 cannot be divided evenly into the micro-batches of " +
                 std::to_string(width) + " pipelines");
  const std::size_t rows = kBatch / static_cast<std::size_t>(width);  // of this pipeline
  const std::size_t micro_rows = rows / options.micro_batches;

  const auto model = make_stage(stage == 0, stage == stages - 1);
  PipelineStage pipeline(ctx, *model,
                         {.stage = static_cast<std::size_t>(stage),
                          .stages = static_cast<std::size_t>(stages),
                          .previous = ctx.rank() - width,
                          .next = ctx.rank() + width,
                          .micro_batches = options.micro_batches,
                          .input_shape = {micro_rows, kHidden}});

  // All ranks make both sets. The gradients of a stage are averaged over its own set.
  std::vector<horo::ProcessSet> sets;
  for (int s = 0; s < stages; ++s)
    sets.push_back(ctx.new_process_set(ranks_from(s * width, width)));
  std::vector<horo::NamedTensor> gradients;
  for (Parameter* parameter : model->parameters())
    gradients.push_back({parameter->name, parameter->gradient.view()});
  horo::GradientSync sync(sets[static_cast<std::size_t>(stage)], gradients);
  Sgd optimizer(model->parameters(), {.learning_rate = 0.2f, .momentum = 0.9f});

  for (unsigned step = 0; step < options.steps; ++step) {
    const auto samples_of = [&](std::size_t micro_batch) {
      return make_samples(
          step * kBatch + static_cast<std::size_t>(column) * rows + micro_batch * micro_rows,
          micro_rows);
    };
    double loss = pipeline.run([&](std::size_t k) { return samples_of(k).inputs; },
                               [&](std::size_t k) { return samples_of(k).targets; },
                               MeanSquaredError(), static_cast<double>(rows), {.training = true});
    sync.exchange();
    optimizer.step();
    if (step % 50 != 0 && step != options.steps - 1) continue;
    // The last stages have the losses of their parts; the others add 0.
    ctx.allreduce(horo::TensorView(&loss, {1}), {.name = "loss", .op = horo::ReduceOp::kSum});
    if (ctx.rank() == 0) std::printf("step %4u  loss %.6f\n", step, loss / width);
  }

  double sum = 0;
  for (const Parameter* parameter : model->parameters()) sum += checksum(parameter->value);
  if (column > 0) sum = 0;  // a copy
  ctx.allreduce(horo::TensorView(&sum, {1}), {.name = "checksum", .op = horo::ReduceOp::kSum});
  if (ctx.rank() == 0) std::printf("checksum of the weights: %.5f\n", sum);
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    Options options;
    boost::program_options::options_description description("Options");
    auto add = description.add_options();
    add("steps", count_value(options.steps, "steps", 1, 1'000'000), "training steps");
    add("micro-batches", count_value(options.micro_batches, "micro-batches", 1, 64),
        "parts of the batch of a pipeline");
    if (!parse_command_line(argc, argv, description)) {
      std::cout << "Trains a model of two stages on different ranks.\n\nExample:\n  "
                << launch_line(argv[0], 4, "--micro-batches 8") << "\n\n"
                << description;
      return 0;
    }
    code = 1;
    horo::Context ctx = horo::init();
    train(ctx, options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return code;
  }
}
