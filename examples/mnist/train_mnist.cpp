// Trains a digit classifier on all ranks that mpirun started, through horo's public API alone.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "examples/mnist/train_options.h"
#include "horo/horo.h"
#include "ops/data/digits_dataset.h"
#include "ops/data/mnist_dataset.h"
#include "ops/kernels/cpu/threads.h"
#include "ops/nn/models.h"
#include "ops/train/trainer.h"

namespace {

using namespace horo::ops;

constexpr int kFailure = 1;
constexpr int kBadInput = 2;

std::unique_ptr<Dataset> open_dataset(const TrainMnistOptions& options, Split split) {
  if (!options.data.empty()) return std::make_unique<MnistDataset>(options.data, split);
  const std::size_t size = split == Split::kTrain ? 20000 : 4000;
  return std::make_unique<DigitsDataset>(DigitsOptions{.split = split, .size = size});
}

std::unique_ptr<Sequential> make_model(const TrainMnistOptions& options, const Dataset& dataset) {
  const auto input = dataset.sample_shape();
  const auto classes = dataset.class_count();
  auto model = options.model == "mlp"
                   ? make_mlp({.input = input, .classes = classes, .seed = options.seed})
                   : make_cnn({.input = input,
                               .classes = classes,
                               .batch_norm = options.model == "cnn-bn",
                               .seed = options.seed});
  // The network starts without an opinion: all classes are equally likely. Large random outputs
  // would make the first steps chaotic, and the rounding of sums, which differs with the number of
  // ranks, would soon show in the loss.
  for (Parameter* parameter : model->parameters())
    if (parameter->name.starts_with("output.")) parameter->value.fill(0.0f);
  return model;
}

int choose_compute_threads(const TrainMnistOptions& options, const horo::Context& context) {
  if (options.compute_threads > 0) return options.compute_threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / context.local_size());
}

// Up from 0 during the warm-up, then down to 0 along a cosine. Depends on the epochs, not on
// --max-steps, so that a run cut short begins like the whole one.
LearningRateSchedule learning_rate_of(const TrainMnistOptions& options, std::size_t samples) {
  const std::size_t steps = options.epochs * (samples / options.global_batch);
  return {.decay = steps > options.warm_up_steps ? Decay::kCosine : Decay::kConstant,
          .base_rate = options.learning_rate,
          .warm_up_steps = options.warm_up_steps,
          .total_steps = steps};
}

horo::Compression compression_of(const TrainMnistOptions& options) {
  using Kind = horo::Compression::Kind;
  return {.kind = options.compression == "powersgd" ? Kind::kPowerSgd
                  : options.compression == "topk"   ? Kind::kTopK
                                                    : Kind::kNone,
          .rank = options.compression_rank,
          .fraction = options.compression_fraction};
}

/// All that a run needs, made from the command line.
struct Job {
  Job(horo::Context& context, const TrainMnistOptions& options)
      : train_set(open_dataset(options, Split::kTrain)),
        test_set(open_dataset(options, Split::kTest)),
        model(make_model(options, *train_set)),
        optimizer(model->parameters(), {.learning_rate = options.learning_rate,
                                        .momentum = options.momentum,
                                        .weight_decay = options.weight_decay}),
        trainer(context, *model, optimizer, *train_set, *test_set,
                trainer_options(options, *train_set)) {}

  static TrainerOptions trainer_options(const TrainMnistOptions& options,
                                        const Dataset& train_set) {
    TrainerOptions trainer{
        .epochs = options.epochs,
        .global_batch = options.global_batch,
        .max_steps = options.max_steps,
        .learning_rate = learning_rate_of(options, train_set.size()),
        .gradient_op = options.op == "adasum" ? horo::ReduceOp::kAdasum : horo::ReduceOp::kAverage,
        .seed = options.seed,
        .loader = {.threads = options.loader_threads, .prefetch = options.prefetch},
        .compression = compression_of(options),
        .accumulate = options.accumulate,
        .max_skipped = options.max_skipped,
        .progress = progress_options_for(stdout)};
    if (options.clip_norm > 0) trainer.clip_norm = options.clip_norm;
    trainer.progress.log_every = options.log_every;
    return trainer;
  }

  std::unique_ptr<Dataset> train_set;
  std::unique_ptr<Dataset> test_set;
  std::unique_ptr<Sequential> model;
  Sgd optimizer;
  Trainer trainer;
};

// Before training, not after it: hours may lie between.
void check_is_writable(const std::string& file) {
  HORO_CHECK(std::ofstream(file, std::ios::app).good(),
             fmt::format("--json: {} cannot be written; check that its directory exists", file));
}

/// Whether any rank has a `problem`; the first one that has tells.
bool is_refused(horo::Context& context, const std::optional<std::string>& problem) {
  std::vector<std::int64_t> first{problem ? context.rank() : context.size()};
  context.allreduce(horo::TensorView(first), {.name = "first_problem", .op = horo::ReduceOp::kMin});
  if (first[0] == context.rank()) fmt::print(stderr, "train_mnist: {}\n", *problem);
  return first[0] < context.size();
}

int run(horo::Context& context, int argc, char** argv) {
  TrainMnistOptions options;
  std::optional<Job> job;
  std::optional<std::string> problem;
  try {
    options = parse_train_options(argc, argv);
    if (options.wants_help) {
      if (context.rank() == 0) fmt::print("{}", train_options_help());
      return 0;
    }
    set_compute_threads(choose_compute_threads(options, context));
    job.emplace(context, options);
    if (context.rank() == 0 && !options.json.empty()) check_is_writable(options.json);
  } catch (const horo::InvalidArgument& error) {
    problem = error.what();
  }
  if (is_refused(context, problem)) return kBadInput;
  const TrainReport report = job->trainer.run();
  if (context.rank() == 0 && !options.json.empty()) write_json(report, options.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int rank = -1;
  try {
    horo::Context context = horo::init();
    rank = context.rank();
    return run(context, argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_mnist: {}{}\n", rank < 0 ? "" : fmt::format("rank {}: ", rank),
               error.what());
    return kFailure;
  }
}
