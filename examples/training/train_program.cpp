#include "examples/training/train_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "horo/horo.h"
#include "ops/backend/cpu/threads.h"
#include "ops/checkpoint/checkpoints.h"
#include "ops/checkpoint/weights.h"
#include "ops/data/crop_and_flip.h"
#include "ops/tensor/host_memory.h"
#include "ops/train/bottleneck/bottleneck_report.h"
#include "ops/train/callbacks/drift_guard.h"
#include "ops/train/callbacks/early_stop.h"
#include "ops/train/callbacks/stop_on_signal.h"
#include "ops/train/step/sync_batch_norm.h"
#include "ops/train/trainer.h"

namespace {

using namespace horo::ops;

constexpr int kFailure = 1;
constexpr int kBadInput = 2;

// With a zero output layer all classes are equally likely at the start. Large random outputs would
// make the first steps chaotic and amplify rounding, which depends on the number of ranks.
void zero_output_layer(Sequential& model) {
  for (Parameter* parameter : model.parameters())
    if (parameter->name.starts_with("output.")) parameter->value.fill(0.0f);
}

int choose_compute_threads(const TrainOptions& options, const horo::Context& context) {
  if (options.compute_threads > 0) return options.compute_threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / context.local_size());
}

std::size_t count_steps(const TrainOptions& options, std::size_t samples) {
  if (options.steps > 0) return options.steps;
  const std::size_t more = options.last_batch == "pad" ? options.global_batch - 1 : 0;
  return options.epochs * ((samples + more) / options.global_batch);
}

horo::DataType precision_of(const TrainOptions& options) {
  if (options.precision == "bfloat16") return horo::DataType::kBFloat16;
  return options.precision == "float16" ? horo::DataType::kFloat16 : horo::DataType::kFloat32;
}

/// The objects of a run, built from the command line.
struct Job {
  /// `gpu`: null for the CPU.
  Job(horo::Context& context, const TrainProgram& program, const TrainOptions& options,
      horo::device::Device* gpu)
      : train_set(program.open_dataset(options, Split::kTrain)),
        test_set(program.open_dataset(options, Split::kTest)),
        model(program.make_model(options, *train_set)),
        optimizer(make_optimizer(options.recipe, *model)),
        trainer(context, *model, *optimizer, *train_set, *test_set,
                trainer_options(options, *train_set, gpu)) {
    if (!scales_with_values(options.recipe)) zero_output_layer(*model);
    if (options.sync_batch_norm) synchronise_batch_norm(*model, context);
    // The trainer broadcasts the weights of rank 0.
    if (!options.load_weights.empty() && context.rank() == 0)
      load_weights(*model, options.load_weights);
  }

  static TrainerOptions trainer_options(const TrainOptions& options, const Dataset& train_set,
                                        horo::device::Device* gpu) {
    TrainerOptions trainer{
        .epochs = options.epochs,
        .global_batch = options.global_batch,
        .shares = {.weights = options.batch_weights,
                   .automatic = options.batch_weights_auto,
                   .every = options.batch_weights_every},
        .steps = options.steps,
        .is_shuffled = options.order == "random",
        .last_batch = options.last_batch == "pad" ? LastBatch::kPad : LastBatch::kDrop,
        .learning_rate = learning_rate_of(options.recipe, options.global_batch,
                                          count_steps(options, train_set.size())),
        .gradient_op = options.op == "adasum" ? horo::ReduceOp::kAdasum : horo::ReduceOp::kAverage,
        .seed = options.seed,
        .evaluate_every = options.evaluate_every,
        .loader = {.threads = options.workers,
                   .prefetch = options.prefetch,
                   .prefetch_bytes = options.prefetch_bytes,
                   .bad_samples =
                       options.bad_samples == "skip" ? BadSamples::kSkip : BadSamples::kFatal},
        .compression = compression_of(options.recipe),
        .wire = wire_of(options.recipe),
        .accumulate = options.accumulate,
        .max_skipped = options.max_skipped,
        .shard_optimizer = options.recipe.shard_optimizer,
        .local_steps = local_steps_of(options.recipe),
        .loss = loss_of(options.recipe),
        .device = {.device = gpu, .type = precision_of(options), .graph = options.graph},
        .profile = {.first = options.profile_first,
                    .last = options.profile_last,
                    .trace = options.profile_trace,
                    .perf_control = options.profile_perf},
        .progress = progress_options_for(stdout),
        .callbacks = {std::make_shared<StopOnSignal>()}};
    trainer.callbacks.push_back(
        std::make_shared<BottleneckReport>(BottleneckReportOptions{.html = options.report}));
    if (options.early_stop > 0)
      trainer.callbacks.push_back(
          std::make_shared<EarlyStop>(EarlyStopOptions{.patience = options.early_stop}));
    // Before Checkpoints, so that no checkpoint has replicas that differ.
    if (options.drift_check > 0)
      trainer.callbacks.push_back(std::make_shared<DriftGuard>(options.drift_check));
    if (!options.checkpoints.directory.empty())
      trainer.callbacks.push_back(std::make_shared<Checkpoints>(options.checkpoints));
    if (options.clip_norm > 0) trainer.clip_norm = options.clip_norm;
    trainer.progress.log_every = options.log_every;
    trainer.loader.as_pixels =
        options.inputs == "pixels" || (options.inputs == "auto" && gpu != nullptr);
    if (options.augmentation != "none")
      add_augmentation(options, gpu != nullptr, train_set, trainer.loader);
    return trainer;
  }

  static void add_augmentation(const TrainOptions& options, bool is_on_gpu,
                               const Dataset& train_set, DataLoaderOptions& loader) {
    HORO_CHECK(options.augmentation != "step" || loader.as_pixels,
               "--augmentation step crops pixels, but the workers normalise them; add --inputs "
               "pixels");
    CropAndFlipOptions crop{.seed = options.seed};
    if (const auto* images = dynamic_cast<const PixelImages*>(&train_set))
      crop.padding_pixels = padding_pixels(images->pixel_scales());
    const CropAndFlip augmentation(train_set.input().shape, crop);
    loader.augmentation = augmentation;
    loader.pixel_augmentation = augmentation;
    if (options.augmentation == "step" || (options.augmentation == "auto" && is_on_gpu))
      loader.crop = [augmentation](std::uint64_t epoch, std::uint64_t sample) {
        return augmentation.crop_of(epoch, sample);
      };
  }

  std::unique_ptr<Dataset> train_set;
  std::unique_ptr<Dataset> test_set;
  std::unique_ptr<Sequential> model;
  std::unique_ptr<Optimizer> optimizer;
  Trainer trainer;
};

// Checked before training, so that hours of training are not lost.
void check_is_writable(const std::string& option, const std::string& file) {
  HORO_CHECK(
      file.empty() || std::ofstream(file, std::ios::app).good(),
      fmt::format("--{}: {} cannot be written; check that its directory exists", option, file));
}

/// Whether any rank has a `problem`. The first rank that has one prints it.
bool is_refused(horo::Context& context, const std::string& program,
                const std::optional<std::string>& problem) {
  std::vector<std::int64_t> first{problem ? context.rank() : context.size()};
  context.allreduce(horo::TensorView(first),
                    {.name = "train.start_check", .op = horo::ReduceOp::kMin});
  if (first[0] == context.rank()) fmt::print(stderr, "{}: {}\n", program, *problem);
  return first[0] < context.size();
}

/// Runs `work` and returns the text of an InvalidArgument: a mistake on the command line or in the
/// data.
std::optional<std::string> problem_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const horo::InvalidArgument& error) {
    return error.what();
  }
  return std::nullopt;
}

void check(const TrainOptions& options) {
  HORO_CHECK(options.device == "cuda" || options.precision == "float32",
             fmt::format("--precision {} is for GPUs; add --device cuda", options.precision));
  HORO_CHECK(options.device == "cpu" || (options.op == "average" && !is_compressed(options.recipe)),
             "--op adasum, --compression and --wire int8 are for --device cpu");
  HORO_CHECK(
      !options.recipe.shard_optimizer || (options.device == "cpu" && options.op == "average"),
      "--shard-optimizer is for --device cpu and --op average");
  HORO_CHECK(
      options.recipe.update == "sync" || (options.device == "cpu" && options.op == "average"),
      fmt::format("--update {} is for --device cpu and --op average", options.recipe.update));
  HORO_CHECK(
      options.op == "average" || (options.batch_weights.empty() && !options.batch_weights_auto),
      "--batch-weights is for --op average");
  HORO_CHECK(
      !options.batch_weights_auto || (!options.graph && !options.sync_batch_norm),
      "--batch-weights auto cannot measure the ranks with --graph or --sync-batch-norm; give "
      "a weight per rank");
  HORO_CHECK(!options.graph || options.bad_samples == "fatal",
             "--bad-samples skip and --graph exclude each other");
  HORO_CHECK(!options.checkpoints.resume || !options.checkpoints.directory.empty(),
             "--resume needs --checkpoint-dir DIR");
  HORO_CHECK(!options.graph || (options.device == "cuda" && options.accumulate == 1),
             "--graph is for --device cuda and --accumulate 1");
  HORO_CHECK(
      !options.graph || !options.sync_batch_norm,
      "--graph and --sync-batch-norm: a graph cannot contain named operations; leave one out");
}

// All ranks must end together: a rank that returned alone would leave the others in their next
// collective. Each check of the input is therefore followed by is_refused(), which is collective.
int run(horo::Context& context, const TrainProgram& program, int argc, char** argv) {
  std::optional<TrainOptions> parsed;
  const auto bad_options = problem_of([&] {
    parsed = parse_train_options(program.command, argc, argv);
    if (parsed) check(*parsed);
  });
  if (is_refused(context, program.command.program, bad_options)) return kBadInput;
  if (!parsed) {
    if (context.rank() == 0) fmt::print("{}", train_options_help(program.command, argv[0]));
    return 0;
  }
  const TrainOptions& options = *parsed;
  std::shared_ptr<horo::device::Device> gpu;
  if (options.device == "cuda") gpu = horo::open_gpu(context);
  std::optional<Job> job;
  const auto bad_input = problem_of([&] {
    keep_freed_memory();
    set_compute_threads(choose_compute_threads(options, context));
    job.emplace(context, program, options, gpu.get());
    if (context.rank() != 0) return;
    check_is_writable("json", options.json);
    check_is_writable("report", options.report);
    check_is_writable("save-weights", options.save_weights);
  });
  if (is_refused(context, program.command.program, bad_input)) return kBadInput;
  TrainReport report;
  try {
    report = job->trainer.run();
  } catch (const CheckpointError& error) {  // on all ranks
    if (context.rank() == 0) fmt::print(stderr, "{}: {}\n", program.command.program, error.what());
    return kFailure;
  }
  if (context.rank() != 0) return 0;
  if (!options.save_weights.empty()) save_weights(*job->model, options.save_weights);
  if (!options.json.empty()) write_json(report, options.json);
  if (program.use_model) program.use_model(options, *job->model, *job->train_set);
  return 0;
}

}  // namespace

int run_train_program(const TrainProgram& program, int argc, char** argv) {
  int rank = -1;
  try {
    horo::Context context = horo::init();
    rank = context.rank();
    return run(context, program, argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}{}\n", program.command.program,
               rank < 0 ? "" : fmt::format("rank {}: ", rank), error.what());
    return kFailure;
  }
}
