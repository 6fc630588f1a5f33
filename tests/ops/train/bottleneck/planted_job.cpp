// A training run with a cause of long steps that its options plant, for
// scripts/bottleneck_check.py. Forward and backward wait, as for an accelerator, so that the cores
// of the machine stay free: other programs hardly change the result.
#include <fmt/core.h>
#include <time.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "examples/command_line.h"
#include "horo/horo.h"
#include "ops/checkpoint/checkpoints.h"
#include "ops/data/random_stream.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "ops/train/bottleneck/bottleneck_report.h"
#include "ops/train/trainer.h"

namespace {

using namespace horo::ops;
using horo::examples::count_value;
using horo::examples::number_value;

constexpr std::size_t kWidth = 16;

struct PlantedOptions {
  double step_ms = 0, sample_ms = 0.5;      // forward and backward: per pass and per sample
  std::size_t tensors = 8, values = 16384;  // parameters
  std::size_t batch = 16, steps = 120, workers = 1;
  std::size_t prefetch = 0;           // 0: automatic
  double read_ms = 0, decode_ms = 0;  // per sample
  int slow_rank = -1;
  double slow_factor = 1;
  double imbalance = 0;  // share by which one rank in turn computes longer
  bool is_balanced = false;
  double log_ms = 0;
  std::size_t log_every = 1;
  std::string checkpoint_directory, json;
  std::size_t checkpoint_every = 0;
  std::string wire = "float32";
  bool shard_optimizer = false;
  std::size_t local_steps = 0, overlap = 0;  // 0 local steps: an exchange in every step
};

void wait_for(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

double thread_cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

void compute_for(double milliseconds) {
  for (const double begin = thread_cpu_ms(); thread_cpu_ms() - begin < milliseconds;)
    std::this_thread::yield();
}

/// Random values whose sum is the target. Reading waits as for a file, decoding uses the core.
class SlowDataset : public Dataset {
 public:
  explicit SlowDataset(const PlantedOptions& options) : options_(options) {}
  std::size_t size() const override { return options_.batch * 4096; }
  SampleForm input() const override { return {{kWidth}}; }
  SampleForm target() const override { return {{1}}; }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    if (options_.read_ms > 0) wait_for(options_.read_ms);
    if (options_.decode_ms > 0) compute_for(options_.decode_ms);
    RandomStream random(index);
    float sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += reinterpret_cast<float*>(input.data())[i] = random.normal();
    *reinterpret_cast<float*>(target.data()) = sum;
  }

 private:
  const PlantedOptions& options_;
};

/// A linear output of the mean of the inputs, with more parameters that get small gradients, and
/// the computing time of an accelerator: a third in forward, the rest in backward.
class WaitingLayer : public Layer {
 public:
  WaitingLayer(const PlantedOptions& options, int rank, int ranks)
      : options_(options), rank_(rank), ranks_(ranks) {
    for (std::size_t i = 0; i < options.tensors; ++i) {
      parameters_.push_back({.name = fmt::format("w{}", i),
                             .value = Tensor({options.values}),
                             .gradient = Tensor({options.values})});
      parameters_.back().value.fill(0.1f);
    }
  }

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all;
    for (Parameter& parameter : parameters_) all.push_back(&parameter);
    return all;
  }

  Tensor forward(Tensor input, const Pass& pass) override {
    const std::size_t rows = input.shape()[0];
    milliseconds_ = duration(rows, pass);
    if (pass.training) wait_for(milliseconds_ / 3);
    Tensor output({rows, 1});
    for (std::size_t row = 0; row < rows; ++row)
      output.data<float>()[row] =
          input.data<float>()[row * kWidth] * parameters_[0].value.data<float>()[0];
    return output;
  }

  // The gradients, which keep their values, become ready from the last parameter to the first.
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override {
    const double part = milliseconds_ * 2 / 3 / 8;
    for (std::size_t i = parameters_.size(), done = 0; i-- > 0;) {
      const std::size_t parts = (parameters_.size() - i) * 8 / parameters_.size();
      if (parts > done) wait_for(part * static_cast<double>(parts - done));
      done = parts;
      if (!is_filled_) parameters_[i].gradient.fill(1e-3f * static_cast<float>(rank_ + 1));
      ready(parameters_[i]);
    }
    is_filled_ = true;
    return output_gradient;
  }

 private:
  double duration(std::size_t rows, const Pass& pass) const {
    double milliseconds = options_.step_ms + options_.sample_ms * static_cast<double>(rows);
    if (rank_ == options_.slow_rank) milliseconds *= options_.slow_factor;
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    const bool is_its_turn =
        RandomStream(pass.step).below(ranks) == static_cast<std::uint64_t>(rank_);
    if (options_.is_balanced)
      milliseconds *= 1 + options_.imbalance / ranks_;
    else if (is_its_turn)
      milliseconds *= 1 + options_.imbalance;
    return milliseconds;
  }

  const PlantedOptions options_;
  const int rank_, ranks_;
  std::vector<Parameter> parameters_;
  double milliseconds_ = 0;
  bool is_filled_ = false;
};

/// Rank 0 logs after some steps, to a slow terminal.
class SlowLog : public TrainerCallback {
 public:
  explicit SlowLog(const PlantedOptions& options) : options_(options) {}
  void after_step(TrainingRun& run) override {
    if (options_.log_ms > 0 && run.context.rank() == 0 && run.steps % options_.log_every == 0)
      wait_for(options_.log_ms);
  }

 private:
  const PlantedOptions& options_;
};

std::optional<PlantedOptions> parse(int argc, char** argv) {
  namespace po = boost::program_options;
  PlantedOptions options;
  po::options_description description("Options");
  const auto number = [](double& to, const char* name) {
    return number_value<double>(to, name, "of at least 0", [](double x) { return x >= 0; });
  };
  description.add_options()("step-ms", number(options.step_ms, "step-ms"), "")(
      "sample-ms", number(options.sample_ms, "sample-ms"), "")(
      "tensors", count_value(options.tensors, "tensors", 1, 100000), "")(
      "values", count_value(options.values, "values", 1, 100000000), "")(
      "global-batch", count_value(options.batch, "global-batch", 1, 1000000), "")(
      "steps", count_value(options.steps, "steps", 1, 1000000), "")(
      "workers", count_value(options.workers, "workers", 0, 1000), "")(
      "prefetch", count_value(options.prefetch, "prefetch", 0, 1000), "")(
      "read-ms", number(options.read_ms, "read-ms"), "")(
      "decode-ms", number(options.decode_ms, "decode-ms"), "")("slow-rank",
                                                               po::value(&options.slow_rank), "")(
      "slow-factor", number(options.slow_factor, "slow-factor"), "")(
      "imbalance", number(options.imbalance, "imbalance"), "")(
      "balanced", po::bool_switch(&options.is_balanced), "")("log-ms",
                                                             number(options.log_ms, "log-ms"), "")(
      "log-every", count_value(options.log_every, "log-every", 1, 1000000), "")(
      "checkpoint-dir", po::value(&options.checkpoint_directory), "")(
      "checkpoint-every", count_value(options.checkpoint_every, "checkpoint-every", 0, 1000000),
      "")("wire", horo::examples::name_value(options.wire, "wire", {"float32", "bfloat16"}), "")(
      "shard-optimizer", po::bool_switch(&options.shard_optimizer), "")(
      "local-steps", count_value(options.local_steps, "local-steps", 0, 1000), "")(
      "overlap", count_value(options.overlap, "overlap", 0, 1000), "")(
      "json", po::value(&options.json), "");
  if (!horo::examples::parse_command_line(argc, argv, description)) return std::nullopt;
  return options;
}

void train(horo::Context& context, const PlantedOptions& options) {
  const SlowDataset data(options);
  Sequential model;
  model.add(std::make_unique<WaitingLayer>(options, context.rank(), context.size()));
  Sgd optimizer(model.parameters(), {.learning_rate = 1e-4f});
  TrainerOptions trainer;
  trainer.global_batch = options.batch;
  trainer.steps = options.steps;
  trainer.evaluate_every = 1'000'000;
  trainer.evaluation_batch = options.batch;
  trainer.loader.threads = options.workers;
  if (options.prefetch > 0) trainer.loader.prefetch = options.prefetch;
  if (options.wire == "bfloat16") trainer.wire = horo::DataType::kBFloat16;
  trainer.shard_optimizer = options.shard_optimizer;
  if (options.local_steps > 0)
    trainer.local_steps = diloco(options.local_steps, 1, options.overlap);
  trainer.loss = std::make_shared<MeanSquaredError>();
  trainer.callbacks.push_back(std::make_shared<BottleneckReport>());
  trainer.callbacks.push_back(std::make_shared<SlowLog>(options));
  if (!options.checkpoint_directory.empty())
    trainer.callbacks.push_back(std::make_shared<Checkpoints>(CheckpointOptions{
        .directory = options.checkpoint_directory, .every = {.steps = options.checkpoint_every}}));
  PlantedOptions test_options;
  test_options.batch = 1;
  const SlowDataset test(test_options);
  const TrainReport report = Trainer(context, model, optimizer, data, test, trainer).run();
  if (context.rank() == 0 && !options.json.empty()) write_json(report, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    horo::Context context = horo::init();
    if (const auto options = parse(argc, argv)) train(context, *options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "planted_job: {}\n", error.what());
    return 1;
  }
}
