// Measures training steps of a model of libtorch without an exchange and with a DistributedModule,
// in turn. scripts/compare_torch.py compares them with PyTorch's DistributedDataParallel.
//
//   hororun -np 2 build/release/bin/torch_bench --rounds 10
//
// Prints one JSON object per way: {"way": ..., "milliseconds": [...]}, one number per round, that
// of the slowest rank.
#include <horo/horo.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/command_line.h"
#include "horo/adapters/torch/torch.h"

namespace {

using namespace horo::examples;
namespace nn = torch::nn;

struct Options {
  std::int64_t layers = 6, width = 2048, samples = 16;
  int rounds = 10, warm_up = 3;
};

/// A model, its optimizer and, unless it is trained alone, its exchange.
class Way {
 public:
  Way(horo::Context& ctx, const Options& options, std::string name, bool is_distributed)
      : ctx_(ctx), name_(std::move(name)) {
    torch::manual_seed(1);
    for (std::int64_t i = 0; i < options.layers; ++i) {
      model_->push_back(nn::Linear(options.width, options.width));
      model_->push_back(nn::ReLU());
    }
    if (is_distributed)
      distributed_ = std::make_unique<horo::libtorch::DistributedModule>(ctx, *model_);
    optimizer_ = std::make_unique<torch::optim::SGD>(model_->parameters(), 1e-3);
    torch::manual_seed(static_cast<std::uint64_t>(2 + ctx.rank()));
    inputs_ = torch::randn({options.samples, options.width});
  }

  const std::string& name() const { return name_; }
  const std::vector<double>& milliseconds() const { return milliseconds_; }

  void run(bool is_counted) {
    ctx_.barrier();
    const auto start = std::chrono::steady_clock::now();
    optimizer_->zero_grad();
    model_->forward(inputs_).square().mean().backward();
    if (distributed_ != nullptr) distributed_->wait();
    optimizer_->step();
    double elapsed =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ctx_.allreduce({&elapsed, {1}}, {.name = "elapsed", .op = horo::ReduceOp::kMax});
    if (is_counted) milliseconds_.push_back(elapsed);
  }

 private:
  horo::Context& ctx_;
  std::string name_;
  nn::Sequential model_;
  std::unique_ptr<horo::libtorch::DistributedModule> distributed_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  at::Tensor inputs_;
  std::vector<double> milliseconds_;
};

void measure(const Options& options) {
  at::set_num_threads(1);
  horo::Context ctx = horo::init();
  Way alone(ctx, options, "alone", false), distributed(ctx, options, "distributed", true);
  for (int round = -options.warm_up; round < options.rounds; ++round)
    for (Way* way : {&alone, &distributed}) way->run(round >= 0);
  if (ctx.rank() != 0) return;
  for (const Way* way : {&alone, &distributed}) {
    std::printf("{\"way\": \"%s\", \"milliseconds\": [", way->name().c_str());
    const char* separator = "";
    for (const double value : way->milliseconds())
      std::printf("%s%.3f", std::exchange(separator, ", "), value);
    std::printf("]}\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;  // the command line is wrong
  try {
    Options options;
    boost::program_options::options_description description("Options");
    auto add = description.add_options();
    add("layers", count_value(options.layers, "layers", 1, 1000), "linear layers of the model");
    add("width", count_value(options.width, "width", 1, 65536), "features of each layer");
    add("samples", count_value(options.samples, "samples", 1, 1'000'000), "samples per rank");
    add("rounds", count_value(options.rounds, "rounds", 1, 1'000'000), "steps that are counted");
    add("warm-up", count_value(options.warm_up, "warm-up", 0, 1'000'000), "steps before them");
    if (!parse_command_line(argc, argv, description)) {
      std::cout << "Measures training steps of libtorch, alone and distributed.\n\nExample:\n  "
                << launch_line(argv[0], 2, "--rounds 10") << "\n\n"
                << description;
      return 0;
    }
    code = 1;
    measure(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "torch_bench: " << error.what() << '\n';
    return code;
  }
}
