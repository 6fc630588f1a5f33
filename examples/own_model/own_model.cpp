// A model of plain arrays without a layer library. Shows the three steps that a program with its
// own training code needs on many ranks: broadcast the initial parameters, average the gradients in
// each step, and give each rank its part of the data. model.cu has the arithmetic. The arrays are
// in host memory, in the memory of a stand-in for a GPU, or in the memory of a GPU (memory.h).
//
//   hororun -np 4 build/release/bin/own_model
#include <horo/horo.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "examples/command_line.h"
#include "examples/own_model/memory.h"
#include "examples/own_model/model.h"

namespace {

constexpr unsigned kGlobalBatch = 256;
constexpr float kLearningRate = 0.05f;

struct Options {
  std::string device = "host";
  unsigned steps = 2000;
};

/// Names and views of the arrays.
std::vector<horo::NamedTensor> tensors_of(const Memory& memory, const Layers& layers) {
  return {{"w1", memory.view(layers.w1, kHidden * kInputs)},
          {"b1", memory.view(layers.b1, kHidden)},
          {"w2", memory.view(layers.w2, kHidden)},
          {"b2", memory.view(layers.b2, 1)}};
}

void train(horo::Context& ctx, Memory& memory, unsigned steps) {
  // One block for all parameters, so one call updates them. The loss follows the gradients.
  float* const parameters = memory.allocate(kParameters);
  float* const gradients = memory.allocate(kParameters + 1);
  float* const loss = gradients + kParameters;
  const Layers model(parameters);
  const Layers gradient(gradients);

  // The broadcast replaces all but rank 0's values.
  initialize(memory.stream(), parameters, kParameters, static_cast<std::uint64_t>(ctx.rank()));
  ctx.broadcast_group(tensors_of(memory, model),
                      {.name = "parameters", .root = 0, .stream = memory.handle()});

  std::vector<horo::NamedTensor> reduced = tensors_of(memory, gradient);
  reduced.push_back({"loss", memory.view(loss, 1)});  // averaged along with the gradients
  horo::GradientSync sync(ctx, reduced);              // kAverage by default

  const unsigned count = kGlobalBatch / static_cast<unsigned>(ctx.size());
  Batch batch{.first = 0,
              .count = count,
              .inputs = memory.allocate(count * kInputs),
              .hidden = memory.allocate(count * kHidden),
              .errors = memory.allocate(count)};
  for (unsigned step = 0; step < steps; ++step) {
    batch.first = step * kGlobalBatch + static_cast<unsigned>(ctx.rank()) * count;
    forward_backward(memory.stream(), model, batch, gradient, loss);

    for (std::size_t i = 0; i < reduced.size(); ++i)
      memory.ready(sync, i);  // a larger model calls this during backward
    memory.wait(sync);

    update(memory.stream(), parameters, gradients, kParameters, kLearningRate);
    if (ctx.rank() == 0 && (step % 400 == 0 || step == steps - 1)) {
      const float value = memory.read(loss);
      sync.check();  // throws if the exchange on a device has failed; the value is then undefined
      std::printf("step %4u  loss %.5f\n", step, static_cast<double>(value));
    }
  }
}

/// Nothing for --help.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  boost::program_options::options_description description("Options");
  auto add = description.add_options();
  add("device", horo::examples::name_value(options.device, "device", {"host", "stand-in", "gpu"}),
      "host: host memory; stand-in: memory of a stand-in for a GPU, to test the program; "
      "gpu: memory of this rank's GPU");
  add("steps", horo::examples::count_value(options.steps, "steps", 1, 1'000'000), "training steps");
  if (horo::examples::parse_command_line(argc, argv, description)) return options;
  std::cout << "Trains two layers, written with plain arrays.\n\nExample:\n  "
            << horo::examples::launch_line(argv[0], 2, "--device stand-in") << "\n\n"
            << description;
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    const std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    code = 1;
    horo::Context ctx = horo::init();
    Memory memory(ctx, options->device);
    train(ctx, memory, options->steps);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_model: %s\n", error.what());
    return code;
  }
}
