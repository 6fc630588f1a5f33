#include "examples/training/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "horo/horo.h"

namespace {

namespace po = boost::program_options;

// Read as signed numbers: read as unsigned ones, "-1" would become a huge count.
template <typename Count>
auto* count_value(Count& target, const char* name, std::int64_t least) {
  const auto store = [&target, name, least](std::int64_t value) {
    const bool fits = static_cast<std::uint64_t>(std::numeric_limits<Count>::max()) >=
                      static_cast<std::uint64_t>(std::max<std::int64_t>(0, value));
    HORO_CHECK(value >= least && fits,
               fmt::format("--{}: {} is out of range, the least is {}", name, value, least));
    target = static_cast<Count>(value);
  };
  return po::value<std::int64_t>()
      ->value_name("N")
      ->default_value(static_cast<std::int64_t>(target))
      ->notifier(store);
}

template <typename Rate>
auto* rate_value(Rate& target, const char* name, const char* range,
                 const std::function<bool(Rate)>& is_valid) {
  const auto store = [&target, name, range, is_valid](Rate value) {
    HORO_CHECK(std::isfinite(value) && is_valid(value),
               fmt::format("--{}: {} is out of range, it must be {}", name, value, range));
    target = value;
  };
  return po::value<Rate>()
      ->value_name("X")
      ->default_value(target, fmt::format("{}", target))
      ->notifier(store);
}

/// "a", "a or b", "a, b or c"
std::string choice_of(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// An option with a name out of `names` as its value.
auto* name_value(std::string& target, const char* option, const std::vector<std::string>& names) {
  const auto check = [option, names](const std::string& name) {
    HORO_CHECK(std::ranges::find(names, name) != names.end(),
               fmt::format("--{}: '{}' is not known; choose {}", option, name, choice_of(names)));
  };
  return po::value(&target)->value_name("NAME")->default_value(target)->notifier(check);
}

void add_compression_options(po::options_description& description, TrainOptions& options) {
  auto add = description.add_options();
  add("compression", name_value(options.compression, "compression", {"none", "powersgd", "topk"}),
      "of gradients: none, powersgd (factors of low rank) or topk (the largest values)");
  add("compression-rank", count_value(options.compression_rank, "compression-rank", 1),
      "columns of powersgd's factors");
  add("compression-fraction",
      rate_value<float>(options.compression_fraction, "compression-fraction",
                        "above 0 and at most 1", [](float x) { return x > 0 && x <= 1; }),
      "part of the values that topk sends");
}

void add_optimizer_options(po::options_description& description, TrainOptions& options) {
  const auto is_share = [](float x) { return x >= 0 && x < 1; };
  constexpr const char* kShare = "at least 0 and below 1";
  auto add = description.add_options();
  add("optimizer", name_value(options.optimizer, "optimizer", {"sgd", "adamw"}), "sgd or adamw");
  add("lr",
      rate_value<float>(options.learning_rate, "lr", "above 0", [](float x) { return x > 0; }),
      "highest learning rate (by default 0.001 for adamw); it falls to 0 towards the end");
  add("momentum", rate_value<float>(options.momentum, "momentum", kShare, is_share),
      "of sgd: share of the last update that the next one keeps");
  add("beta1", rate_value<float>(options.beta1, "beta1", kShare, is_share),
      "of adamw: share of the mean gradient that is kept");
  add("beta2", rate_value<float>(options.beta2, "beta2", kShare, is_share),
      "of adamw: the same of its square");
  add("epsilon",
      rate_value<float>(options.epsilon, "epsilon", "above 0", [](float x) { return x > 0; }),
      "of adamw: added to the root of the mean square");
  add("weight-decay",
      rate_value<float>(options.weight_decay, "weight-decay", "at least 0",
                        [](float x) { return x >= 0; }),
      "times the weight is added to its gradient; for adamw (by default 0.01) times the learning "
      "rate of every weight goes in a step");
}

// What suits the one optimizer does not suit the other.
void choose_defaults(TrainOptions& options, const po::variables_map& values) {
  if (options.optimizer != "adamw") return;
  if (values["lr"].defaulted()) options.learning_rate = TrainOptions::kAdamWLearningRate;
  if (values["weight-decay"].defaulted()) options.weight_decay = TrainOptions::kAdamWWeightDecay;
}

po::options_description describe_options(TrainOptions& options, const TrainCommand& command) {
  po::options_description description("Options");
  auto add = description.add_options();
  add("help", po::bool_switch(&options.wants_help), "show this text");
  add("data", po::value(&options.data)->value_name("DIR"), command.data_help.c_str());
  add("model", name_value(options.model, "model", command.models), command.model_help.c_str());
  add("epochs", count_value(options.epochs, "epochs", 1), "passes over the training set");
  add("global-batch", count_value(options.global_batch, "global-batch", 1),
      "samples per step, over all ranks");
  add("op", name_value(options.op, "op", {"average", "adasum"}),
      "how the ranks' gradients become one: average or adasum");
  add("warm-up", count_value(options.warm_up_steps, "warm-up", 0),
      "steps at the start over which the learning rate rises from 0");
  add("accumulate", count_value(options.accumulate, "accumulate", 1),
      "passes that a step is computed in, over parts of the batch, to save memory");
  add("clip-norm",
      rate_value<double>(options.clip_norm, "clip-norm", "at least 0",
                         [](double x) { return x >= 0; }),
      "largest norm of the gradients; longer ones are scaled down; 0: none");
  add("max-skipped", count_value(options.max_skipped, "max-skipped", 0),
      "steps in a row that may be skipped because values are not finite; 0: none");
  add("seed", count_value(options.seed, "seed", 0),
      "of the initial weights and the order of samples");
  add("loader-threads", count_value(options.loader_threads, "loader-threads", 0),
      "threads per rank that load data; 0: none of their own");
  add("prefetch", count_value(options.prefetch, "prefetch", 1), "batches loaded ahead");
  add("compute-threads", count_value(options.compute_threads, "compute-threads", 0),
      "threads per rank that compute; 0: the cores of the node, divided by its ranks. Another "
      "number "
      "rounds sums differently");
  add("device", name_value(options.device, "device", {"cpu", "cuda"}),
      "where the model computes: cpu, or cuda, a GPU for each rank");
  add("precision", name_value(options.precision, "precision", {"float32", "bfloat16"}),
      "what a GPU computes with, float32 or bfloat16; weights are updated as float32");
  add("log-every", count_value(options.log_every, "log-every", 1),
      "steps between lines of progress, where there is no bar");
  add("max-steps", count_value(options.max_steps, "max-steps", 0),
      "end after this many steps; 0: after the epochs");
  add_optimizer_options(description, options);
  add_compression_options(description, options);
  if (command.defaults.augment)
    add("no-augmentation",
        po::bool_switch()->notifier([&options](bool is_off) { options.augment = !is_off; }),
        "train with the images as they are, not cut out and mirrored by chance");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report there");
  return description;
}

}  // namespace

TrainOptions parse_train_options(const TrainCommand& command, int argc, char** argv) {
  TrainOptions options = command.defaults;
  try {
    po::variables_map values;
    po::store(
        po::command_line_parser(argc, argv)
            .options(describe_options(options, command))
            .positional({})
            .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
            .run(),
        values);
    po::notify(values);
    choose_defaults(options, values);
  } catch (const po::error& error) {
    throw horo::InvalidArgument(fmt::format("{}; --help lists the options", error.what()));
  }
  return options;
}

std::string train_options_help(const TrainCommand& command) {
  TrainOptions defaults = command.defaults;
  std::ostringstream text;
  text << fmt::format("{}\n\n  mpirun -n 4 {} --epochs 3\n\n", command.purpose, command.program)
       << describe_options(defaults, command);
  return text.str();
}
