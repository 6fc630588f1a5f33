// Trains a classifier of handwritten digits with the C++ library of PyTorch on all ranks of a job.
// The lines with horo make the training distributed; the rest is a usual program for libtorch.
//
//   hororun -np 4 build/release/bin/train_torch --epochs 2
#include <ATen/CPUGeneratorImpl.h>
#include <horo/horo.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>

#include "examples/command_line.h"
#include "examples/torch/digits.h"
#include "horo/adapters/torch/torch.h"

namespace {

using namespace horo::examples;
namespace nn = torch::nn;

struct Options {
  std::string data;
  std::string model = "cnn";
  std::int64_t epochs = 2;
  std::int64_t steps = 0;  // if not 0, ends the training early
  std::int64_t global_batch = 128;
  double learning_rate = 0.05;
  double clip_norm = 0;  // 0: none
  std::string checkpoint;
  std::int64_t seed = 1;
  int compute_threads = 1;
};

nn::Sequential make_model(const Options& options, horo::Context& ctx) {
  if (options.model == "mlp")
    return nn::Sequential(nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).stride(2)));
  if (options.model == "cnn-bn")
    model->push_back(horo::libtorch::SyncBatchNorm(horo::libtorch::BatchNormExchange{ctx, "norm"},
                                                   nn::BatchNormOptions(16)));
  model->extend(*nn::Sequential(nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).stride(2)),
                                nn::ReLU(), nn::Flatten(), nn::Linear(32 * 6 * 6, 10)));
  return model;
}

// The test samples are divided between the ranks.
double accuracy_of(nn::Sequential& model, const Digits& test, horo::Context& ctx) {
  const torch::NoGradGuard no_graph;
  model->eval();
  const at::Tensor mine = torch::arange(ctx.rank(), test.targets.size(0), ctx.size());
  const at::Tensor found = model->forward(test.images.index_select(0, mine)).argmax(1);
  const at::Tensor right = found.eq(test.targets.index_select(0, mine)).sum();
  ctx.allreduce(horo::libtorch::view_of(right), {.name = "right", .op = horo::ReduceOp::kSum});
  model->train();
  return static_cast<double>(right.item<std::int64_t>()) /
         static_cast<double>(test.targets.size(0));
}

// All ranks draw the same order of an epoch, and each takes its share of every batch.
at::Tensor order_of(std::int64_t epoch, std::int64_t samples, const Options& options) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(options.seed + epoch));
  return torch::randperm(samples, generator);
}

void train(horo::Context& ctx, const Options& options) {
  HORO_CHECK(options.global_batch % ctx.size() == 0,
             "--global-batch " + std::to_string(options.global_batch) + ": the " +
                 std::to_string(ctx.size()) + " ranks do not divide it");
  at::set_num_threads(options.compute_threads);
  torch::manual_seed(static_cast<std::uint64_t>(options.seed + ctx.rank()));
  const Digits samples = load_digits(options.data, true), test = load_digits(options.data, false);

  nn::Sequential model = make_model(options, ctx);
  horo::libtorch::DistributedModuleOptions distribution;
  if (options.clip_norm > 0) distribution.gradients.clip_norm = options.clip_norm;
  horo::libtorch::DistributedModule distributed(ctx, *model, distribution);
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(options.learning_rate).momentum(0.9));

  const std::int64_t per_rank = options.global_batch / ctx.size();
  const std::int64_t per_epoch = samples.targets.size(0) / options.global_batch;
  std::int64_t end = options.epochs * per_epoch, step = 0;
  if (options.steps > 0) end = options.steps;
  // Rank 0 alone decides, because the other ranks may not see its file.
  std::int64_t has_checkpoint = std::filesystem::exists(options.checkpoint);
  ctx.broadcast({&has_checkpoint, {1}}, {.name = "has_checkpoint"});
  if (!options.checkpoint.empty() && has_checkpoint != 0)
    step = horo::libtorch::load_checkpoint(ctx, options.checkpoint, *model, &optimizer);

  at::Tensor order;
  for (std::int64_t epoch_of_order = -1; step < end; ++step) {
    if (const std::int64_t epoch = step / per_epoch; epoch != epoch_of_order)
      order = order_of(epoch_of_order = epoch, samples.targets.size(0), options);
    const std::int64_t first = step % per_epoch * options.global_batch + ctx.rank() * per_rank;
    const at::Tensor batch = order.narrow(0, first, per_rank);

    optimizer.zero_grad();
    const at::Tensor loss =
        nn::functional::cross_entropy(model->forward(samples.images.index_select(0, batch)),
                                      samples.targets.index_select(0, batch));
    loss.backward();
    distributed.wait();
    optimizer.step();

    if (step % 50 == 0 || step == end - 1) {
      const at::Tensor mean = loss.detach().clone();
      ctx.allreduce(horo::libtorch::view_of(mean), {.name = "loss"});
      if (ctx.rank() == 0) std::printf("step %4ld  loss %.5f\n", step, mean.item<double>());
    }
  }
  if (!options.checkpoint.empty())
    horo::libtorch::save_checkpoint(ctx, options.checkpoint, *model, &optimizer, step);
  const double accuracy = accuracy_of(model, test, ctx);
  if (ctx.rank() == 0)
    std::printf("test accuracy %.2f %% after %ld steps on %s\n", 100 * accuracy, step,
                counted(ctx.size(), "rank").c_str());
}

boost::program_options::options_description describe(Options& options) {
  namespace po = boost::program_options;
  po::options_description description("Options");
  auto add = description.add_options();
  const auto not_negative = [](double x) { return x >= 0; };
  add("data", po::value(&options.data)->value_name("DIR"),
      "directory of the four MNIST files, not compressed; without it, images that the program "
      "draws");
  add("model", name_value(options.model, "model", {"mlp", "cnn", "cnn-bn"}),
      "mlp, cnn, or cnn-bn (with batch normalisation over all ranks)");
  add("epochs", count_value(options.epochs, "epochs", 1, 1'000'000), "length of the training");
  add("steps", count_value(options.steps, "steps", 0, 1'000'000'000),
      "length in steps, in place of epochs; 0: as --epochs says");
  add("global-batch", count_value(options.global_batch, "global-batch", 1, 1'000'000'000),
      "samples per step over all ranks");
  add("lr",
      number_value<double>(options.learning_rate, "lr", "above 0", [](double x) { return x > 0; }),
      "learning rate");
  add("clip-norm",
      number_value<double>(options.clip_norm, "clip-norm", "of at least 0", not_negative),
      "largest norm of the gradients; 0: no limit");
  add("checkpoint", po::value(&options.checkpoint)->value_name("FILE"),
      "continue from this file if it exists, and write it at the end");
  add("seed", count_value(options.seed, "seed", 0, std::numeric_limits<std::int32_t>::max()),
      "of the initial weights and of the order of the samples");
  add("compute-threads", count_value(options.compute_threads, "compute-threads", 1, 1024),
      "threads of each rank");
  return description;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    Options options;
    auto description = describe(options);
    if (!parse_command_line(argc, argv, description)) {
      std::cout << "Trains a classifier of digits with libtorch on all ranks of a job.\n\nExample:"
                << "\n  " << launch_line(argv[0], 4, "--epochs 2") << "\n\n"
                << description;
      return 0;
    }
    code = 1;
    horo::Context ctx = horo::init();
    train(ctx, options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "train_torch: " << error.what() << '\n';
    return code;
  }
}
