// Tensor parallelism: an MLP of two linear layers, of which each rank has a part. The first layer
// is divided by its outputs and the second by its inputs, so a step needs one allreduce in forward
// and one in backward. Losses and weights are those of one rank with the whole model, up to
// rounding.
//
//   hororun -np 4 build/release/bin/tensor_parallel
#include <horo/horo.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>

#include "examples/command_line.h"
#include "examples/parallel/teacher.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/loss.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "ops/parallel/parallel_linear.h"

namespace {

using namespace horo::examples;
using namespace horo::ops;

constexpr std::size_t kHidden = 96, kBatch = 64;

void train(horo::Context& ctx, unsigned steps) {
  // All ranks have the same batches. `up` gives each rank a part of the hidden features, GELU needs
  // no other rank, and `down` sums over the ranks.
  auto up = std::make_unique<ColumnParallelLinear>(
      ctx, LinearOptions{.in_features = kInputs, .out_features = kHidden, .input_gradient = false},
      "up");
  auto down = std::make_unique<RowParallelLinear>(
      ctx, LinearOptions{.in_features = kHidden, .out_features = kOutputs}, "down");
  ParallelLinear &first = *up, &second = *down;
  Sequential model;
  model.add("up", std::move(up)).add("gelu", Gelu()).add("down", std::move(down));
  Sgd optimizer(model.parameters(), {.learning_rate = 0.2f, .momentum = 0.9f});
  const MeanSquaredError loss_function;

  for (unsigned step = 0; step < steps; ++step) {
    Samples batch = make_samples(step * kBatch, kBatch);
    Tensor output = model.forward(std::move(batch.inputs), {.training = true});
    BatchScore score;
    float loss = 0;
    Tensor gradient = loss_function.backward(cpu_backend(), std::move(output), batch.targets,
                                             kBatch, &score, &loss);
    model.backward(std::move(gradient), {});
    optimizer.step();  // each rank updates its part; no gradients are exchanged
    if (ctx.rank() == 0 && (step % 50 == 0 || step == steps - 1))
      std::printf("step %4u  loss %.6f\n", step, static_cast<double>(loss));
  }

  const double sums[] = {checksum(first.gather_weight()), checksum(second.gather_weight())};
  if (ctx.rank() == 0)
    std::printf("checksums of the weights: up %.5f, down %.5f; each rank has %zu of %zu values\n",
                sums[0], sums[1], first.weight().value.count() + second.weight().value.count(),
                kHidden * (kInputs + kOutputs));
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    unsigned steps = 200;
    boost::program_options::options_description options("Options");
    options.add_options()("steps", count_value(steps, "steps", 1, 1'000'000), "training steps");
    if (!parse_command_line(argc, argv, options)) {
      std::cout << "Trains a model whose layers are divided between the ranks.\n\nExample:\n  "
                << launch_line(argv[0], 4, "--steps 200") << "\n\n"
                << options;
      return 0;
    }
    code = 1;
    horo::Context ctx = horo::init();
    train(ctx, steps);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor_parallel: %s\n", error.what());
    return code;
  }
}
