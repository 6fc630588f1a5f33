#include "examples/training/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <limits>
#include <sstream>

#include "examples/command_line.h"

namespace {

namespace po = boost::program_options;

using horo::examples::count_value;
using horo::examples::name_value;
using horo::examples::number_value;

// Larger values are typing errors, which would otherwise cause runs of years or allocations of
// terabytes.
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr std::int64_t kMostSamples = 1'000'000'000;
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

bool is_not_negative(double x) { return x >= 0; }

// "auto" or a number of batches.
po::typed_value<std::string>* prefetch_value(TrainOptions& options) {
  const auto store = [&options](const std::string& text) {
    options.prefetch.reset();
    if (text != "auto")
      options.prefetch =
          static_cast<std::size_t>(horo::examples::parse_count("prefetch", text, 1, 65536));
  };
  return po::value<std::string>()->value_name("N")->default_value("auto")->notifier(store);
}

// Without a default, since the number of epochs is the default.
po::typed_value<std::string>* steps_value(TrainOptions& options) {
  const auto store = [&options](const std::string& text) {
    options.steps =
        static_cast<std::uint64_t>(horo::examples::parse_count("steps", text, 1, kMostSteps));
  };
  return po::value<std::string>()->value_name("N")->notifier(store);
}

// "equal", "auto" or "2,1".
po::typed_value<std::string>* batch_weights_value(TrainOptions& options) {
  const auto store = [&options](const std::string& text) {
    options.batch_weights.clear();
    options.batch_weights_auto = text == "auto";
    if (text == "equal" || text == "auto") return;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      options.batch_weights.push_back(
          horo::examples::parse_number<double>("batch-weights", text.substr(begin, end - begin),
                                               "above 0", [](double x) { return x > 0; }));
      begin = end + 1;
    }
  };
  return po::value<std::string>()->value_name("X,X...")->default_value("equal")->notifier(store);
}

void add_loader_options(po::options_description& description, TrainOptions& options) {
  auto add = description.add_options();
  add("workers", count_value(options.workers, "workers", 0, kMostThreads),
      "threads per rank that load data; 0: the training thread loads it");
  add("prefetch", prefetch_value(options),
      "batches loaded ahead, or auto: 2, and more while training waits in spite of free threads");
  add("prefetch-bytes", count_value(options.prefetch_bytes, "prefetch-bytes", 0, kMostBytes),
      "limit of the memory for batches with --prefetch auto");
  add("order", name_value(options.order, "order", {"random", "sequential"}),
      "order of the samples: another random order in each epoch, or that of the data set");
  add("last-batch", name_value(options.last_batch, "last-batch", {"drop", "pad"}),
      "samples that do not fill the last step of an epoch: drop them, or fill the step up with "
      "samples of weight 0");
  add("inputs", name_value(options.inputs, "inputs", {"auto", "pixels", "float32"}),
      "what workers load of images: pixels, which the training step normalises, or float32 values; "
      "auto: pixels with --device cuda");
  add("bad-samples", name_value(options.bad_samples, "bad-samples", {"fatal", "skip"}),
      "a sample that cannot be read: end the training, or skip it");
}

// "100:120"
void set_profile(TrainOptions& options, const std::string& text) {
  const std::size_t colon = text.find(':');
  HORO_CHECK(colon != std::string::npos,
             fmt::format("--profile {}: the value must be FIRST:LAST, such as 100:120", text));
  const auto step = [](const std::string& number) {
    return static_cast<std::uint64_t>(
        horo::examples::parse_count("profile", number, 1, kMostSteps));
  };
  options.profile_first = step(text.substr(0, colon));
  options.profile_last = step(text.substr(colon + 1));
}

void add_profile_options(po::options_description& description, TrainOptions& options) {
  auto add = description.add_options();
  add("profile",
      po::value<std::string>()
          ->value_name("FIRST:LAST")
          ->notifier([&options](const std::string& text) { set_profile(options, text); }),
      "profile these steps: write a trace, and let nsys or perf record them alone");
  add("profile-trace",
      po::value(&options.profile_trace)->value_name("FILE")->default_value(options.profile_trace),
      "trace of the phases of all ranks in the profiled steps");
  add("profile-perf", po::value(&options.profile_perf)->value_name("FIFO"),
      "control FIFO of perf record, which then records the profiled steps");
}

void add_checkpoint_options(po::options_description& description, TrainOptions& options) {
  auto add = description.add_options();
  const auto path = [](auto& target) { return po::value(&target)->value_name("FILE"); };
  const auto set_interval = [&options](const std::string& text) {
    try {
      options.checkpoints.every = horo::ops::parse_checkpoint_interval(text);
    } catch (const horo::InvalidArgument&) {
      throw horo::InvalidArgument(fmt::format(
          "--checkpoint-every {}: the value must be a number of steps, such as 500, or a "
          "time, such as 10min",
          text));
    }
  };
  add("checkpoint-dir",
      po::value<std::string>()->value_name("DIR")->notifier(
          [&options](const std::string& text) { options.checkpoints.directory = text; }),
      "directory for checkpoints; on several hosts, one that they share");
  add("checkpoint-every",
      po::value<std::string>()->value_name("N|TIME")->default_value("10min")->notifier(
          set_interval),
      "steps or time between checkpoints; 0: only at the end. There is always one at the end and "
      "after SIGTERM");
  add("checkpoint-keep", count_value(options.checkpoints.keep, "checkpoint-keep", 1, 1'000'000),
      "checkpoints that are kept");
  add("resume", po::bool_switch(&options.checkpoints.resume),
      "continue from the newest checkpoint; if there is none, from the begin");
  add("load-weights", path(options.load_weights),
      "start with the weights of a safetensors file or a checkpoint");
  add("save-weights", path(options.save_weights), "write the weights to a safetensors file");
}

po::options_description describe_options(TrainOptions& options, const TrainCommand& command) {
  po::options_description description("Options");
  auto add = description.add_options();
  add("data", po::value(&options.data)->value_name("DIR"), command.data_help.c_str());
  add("model", name_value(options.model, "model", command.models), command.model_help.c_str());
  add("epochs", count_value(options.epochs, "epochs", 1, 1'000'000),
      "passes over the training set");
  add("steps", steps_value(options),
      "train for this many steps, in place of --epochs; the learning rate falls until then");
  add("global-batch", count_value(options.global_batch, "global-batch", 1, kMostSamples),
      "samples per step, over all ranks");
  add("batch-weights", batch_weights_value(options),
      "parts of the ranks in a step: equal, one weight per rank such as 2,1, or auto, by their "
      "measured speed");
  add("batch-weights-every",
      count_value(options.batch_weights_every, "batch-weights-every", 1, kMostSteps),
      "steps between measurements with --batch-weights auto");
  add("op", name_value(options.op, "op", {"average", "adasum"}),
      "how the gradients of the ranks are combined: average or adasum");
  add("accumulate", count_value(options.accumulate, "accumulate", 1, kMostSamples),
      "passes per step, each over a part of the batch, to save memory");
  add("clip-norm",
      number_value<double>(options.clip_norm, "clip-norm", "of at least 0", is_not_negative),
      "largest norm of the gradients: larger gradients are scaled down; 0: no limit");
  add("max-skipped", count_value(options.max_skipped, "max-skipped", 0, kMostSteps),
      "consecutive steps that may be skipped because values are not finite; 0: none");
  add("evaluate-every", count_value(options.evaluate_every, "evaluate-every", 0, kMostSteps),
      "steps between evaluations; 0: after each epoch");
  add("early-stop", count_value(options.early_stop, "early-stop", 0, kMostSteps),
      "end after this many evaluations without a lower test loss; 0: do not");
  add_profile_options(description, options);
  add("drift-check", count_value(options.drift_check, "drift-check", 0, kMostSteps),
      "compare parameters and optimizer state of the ranks every N steps, and fail if they differ; "
      "0: only the parameters, at the end");
  add("seed", count_value(options.seed, "seed", 0, std::numeric_limits<std::int64_t>::max()),
      "of the initial weights and the order of samples");
  add("compute-threads", count_value(options.compute_threads, "compute-threads", 0, kMostThreads),
      "threads per rank that compute; 0: the cores of the node divided by its ranks. The "
      "number affects the rounding of sums");
  add("device", name_value(options.device, "device", {"cpu", "cuda"}),
      "where the model computes: cpu, or cuda with one GPU per rank");
  add("precision", name_value(options.precision, "precision", {"float32", "bfloat16", "float16"}),
      "element type of the computation on a GPU: float32, bfloat16, or float16 with a loss scale; "
      "weights stay float32");
  add("graph", po::bool_switch(&options.graph),
      "run the steps on a GPU as CUDA graphs, which is faster for small batches");
  add("log-every", count_value(options.log_every, "log-every", 1, kMostSteps),
      "steps between progress lines, if there is no progress bar");
  add("sync-batch-norm", po::bool_switch(&options.sync_batch_norm),
      "batch normalisation uses the statistics of the samples of all ranks");
  add_loader_options(description, options);
  add_recipe_options(description, options.recipe);
  add_checkpoint_options(description, options);
  if (command.defaults.augmentation != "none")
    add("augmentation",
        name_value(options.augmentation, "augmentation", {"auto", "workers", "step", "none"}),
        "random crops and flips of images: by the workers; or by the training step, where it "
        "normalises pixels (--inputs pixels); auto: step with --device cuda; none: images as they "
        "are");
  if (command.add_options) command.add_options(description);
  add("report", po::value(&options.report)->value_name("FILE"),
      "write the bottleneck report, which the program prints at the end and after SIGUSR1, also to "
      "FILE, as an HTML page");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  return description;
}

}  // namespace

std::optional<TrainOptions> parse_train_options(const TrainCommand& command, int argc,
                                                char** argv) {
  TrainOptions options = command.defaults;
  po::options_description description = describe_options(options, command);
  const auto values = horo::examples::parse_command_line(argc, argv, description);
  if (!values) return std::nullopt;
  HORO_CHECK((*values)["epochs"].defaulted() || values->count("steps") == 0,
             fmt::format("--epochs {} and --steps {} exclude each other; leave one out",
                         options.epochs, options.steps));
  complete_recipe(options.recipe, *values);
  return options;
}

std::string train_options_help(const TrainCommand& command, const std::string& program) {
  TrainOptions defaults = command.defaults;
  po::options_description description = describe_options(defaults, command);
  horo::examples::add_help(description);
  std::ostringstream text;
  text << fmt::format("{}\n\n  {}\n\n", command.purpose,
                      horo::examples::launch_line(program, 4, "--epochs 3"))
       << description;
  return text.str();
}
