#include "examples/training/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "examples/command_line.h"
#include "ops/optim/adamw.h"
#include "ops/optim/lamb.h"
#include "ops/optim/lars.h"
#include "ops/optim/muon.h"
#include "ops/optim/sgd.h"

namespace {

namespace po = boost::program_options;

using namespace horo::ops;
using horo::examples::count_value;
using horo::examples::name_value;
using horo::examples::number_value;
using horo::examples::parse_count;
using horo::examples::parse_number;

constexpr std::int64_t kMostRecipeSteps = 1'000'000'000;

/// Vectors are updated by LARS as by SGD, without its small trust ratio.
constexpr float kVectorRateOfLars = 0.05f;

bool is_above_0(float x) { return x > 0; }
bool is_at_least_0(float x) { return x >= 0; }
bool is_fraction(float x) { return x >= 0 && x < 1; }
constexpr const char* kFraction = "from 0 to below 1";

/// Defaults that suit an optimizer.
struct Defaults {
  float learning_rate, weight_decay, momentum;
};

const std::map<std::string, Defaults>& defaults_of_optimizers() {
  static const std::map<std::string, Defaults> all = {
      {"adam", {1e-3f, 0, 0}},     {"adamw", {1e-3f, 1e-2f, 0}},    {"lars", {1, 1e-4f, 0.9f}},
      {"lamb", {5e-3f, 1e-2f, 0}}, {"muon", {1e-3f, 1e-2f, 0.95f}},
  };
  return all;
}

/// "output.*=10"
ParameterRule parse_rate(const std::string& text) {
  const std::size_t split = text.rfind('=');
  HORO_CHECK(split != std::string::npos && split > 0,
             fmt::format("--rate {}: the value must be PATTERN=FACTOR, such as output.*=10", text));
  ParameterRule rule{.pattern = text.substr(0, split)};
  rule.learning_rate = parse_number<float>(fmt::format("rate {}", rule.pattern),
                                           text.substr(split + 1), "of at least 0", is_at_least_0);
  return rule;
}

/// "1000,2000"
std::vector<std::size_t> parse_milestones(const std::string& text) {
  std::vector<std::size_t> steps;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    steps.push_back(static_cast<std::size_t>(
        parse_count("lr-milestones", text.substr(begin, end - begin), 1, kMostRecipeSteps)));
    HORO_CHECK(steps.size() < 2 || steps[steps.size() - 2] < steps.back(),
               fmt::format("--lr-milestones {}: the steps must be ascending", text));
    begin = end + 1;
  }
  return steps;
}

void add_optimizer_options(po::options_description& description, Recipe& recipe) {
  auto add = description.add_options();
  add("optimizer",
      name_value(recipe.optimizer, "optimizer", {"sgd", "adam", "adamw", "lars", "lamb", "muon"}),
      "sgd, adam, adamw or muon; lars or lamb for large batches");
  add("momentum", number_value<float>(recipe.momentum, "momentum", kFraction, is_fraction),
      "sgd, lars, muon (default 0.95): fraction of the last update that the next one keeps");
  add("nesterov", po::bool_switch(&recipe.nesterov),
      "sgd: Nesterov momentum, which muon always uses");
  add("beta1", number_value<float>(recipe.beta1, "beta1", kFraction, is_fraction),
      "adam, adamw, lamb: decay rate of the mean gradient");
  add("beta2", number_value<float>(recipe.beta2, "beta2", kFraction, is_fraction),
      "adam, adamw, lamb: decay rate of the mean squared gradient");
  add("epsilon", number_value<float>(recipe.epsilon, "epsilon", "above 0", is_above_0),
      "adam, adamw, lamb: added to the root of the mean squared gradient");
  add("weight-decay",
      number_value<float>(recipe.weight_decay, "weight-decay", "of at least 0", is_at_least_0),
      "sgd, adam (default 0), lars (default 0.0001): this times the weight is added to its "
      "gradient. adamw, lamb, muon (default 0.01): this times the learning rate times the weight "
      "is subtracted in every step");
  add("trust-coefficient",
      number_value<float>(recipe.trust_coefficient, "trust-coefficient", "above 0", is_above_0),
      "lars: change of a matrix per step, relative to its norm, at a learning rate of 1");
  add("rate",
      po::value<std::vector<std::string>>()
          ->value_name("PATTERN=X")
          ->notifier([&recipe](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) recipe.rules.push_back(parse_rate(text));
          }),
      "parameters whose names match PATTERN, such as output.*, have X times the learning rate; 0 "
      "keeps them as they are. May be given several times");
  add("no-vector-decay", po::bool_switch()->notifier([&recipe](bool is_on) {
    if (is_on) recipe.rules.push_back({.vectors_only = true, .weight_decay = 0});
  }),
      "no weight decay of biases, and of the scales and shifts of normalisation");
}

void add_rate_options(po::options_description& description, Recipe& recipe) {
  auto add = description.add_options();
  add("lr", number_value<float>(recipe.learning_rate, "lr", "above 0", is_above_0),
      "peak learning rate. Default for adam, adamw and muon: 0.001; lamb: 0.005; lars: 1");
  add("schedule",
      name_value(recipe.schedule, "schedule", {"constant", "cosine", "step", "polynomial"}),
      "learning rate after the warm-up: constant; cosine or polynomial, which fall until the end; "
      "or step, which falls at some steps");
  add("warm-up", count_value(recipe.warm_up_steps, "warm-up", 0, kMostRecipeSteps),
      "steps at the start during which the learning rate rises from 0");
  add("final-lr",
      number_value<float>(recipe.final_rate, "final-lr", "of at least 0", is_at_least_0),
      "cosine, polynomial: the learning rate at the end");
  add("lr-power", number_value<float>(recipe.power, "lr-power", "above 0", is_above_0),
      "polynomial: 1 is linear; 2 is usual with lars");
  add("lr-milestones",
      po::value<std::string>()->value_name("N,N...")->notifier(
          [&recipe](const std::string& text) { recipe.milestones = parse_milestones(text); }),
      "step: the steps at which the learning rate falls (default: after 1/2 and 3/4 of all steps)");
  add("lr-factor", number_value<float>(recipe.step_factor, "lr-factor", "above 0", is_above_0),
      "step: what the learning rate is multiplied by");
  add("linear-scaling", count_value(recipe.base_batch, "linear-scaling", 0, kMostRecipeSteps),
      "multiply the learning rate by the global batch and divide it by N, the batch for which --lr "
      "was chosen; 0: do not");
}

void add_exchange_options(po::options_description& description, Recipe& recipe) {
  auto add = description.add_options();
  add("label-smoothing",
      number_value<float>(recipe.label_smoothing, "label-smoothing", kFraction, is_fraction),
      "part of the target that is spread over all classes; 0.1 is usual");
  add("shard-optimizer", po::bool_switch(&recipe.shard_optimizer),
      "each rank keeps the optimizer state of its share of the parameters: sgd, adam, adamw");
  const auto set_wire = [&recipe](const std::string& name) {
    static const std::map<std::string, std::string> short_names = {{"bf16", "bfloat16"},
                                                                   {"f16", "float16"}};
    const auto known = short_names.find(name);
    recipe.wire = known == short_names.end() ? name : known->second;
    HORO_CHECK(recipe.wire == "float32" || recipe.wire == "bfloat16" || recipe.wire == "float16" ||
                   recipe.wire == "int8",
               fmt::format("--wire {}: choose float32, bfloat16, float16 or int8", name));
  };
  add("wire",
      po::value<std::string>()->value_name("NAME")->default_value(recipe.wire)->notifier(set_wire),
      "type in which gradients are sent between nodes: float32, bfloat16 (bf16), float16 (f16), or "
      "int8 with a scale for each 256 values");
  add("compression", name_value(recipe.compression, "compression", {"none", "powersgd", "topk"}),
      "gradient compression: none, powersgd (low-rank factors) or topk (the largest values)");
  add("compression-rank", count_value(recipe.compression_rank, "compression-rank", 1, 65536),
      "columns of the factors of powersgd");
  add("compression-fraction",
      number_value<float>(recipe.compression_fraction, "compression-fraction",
                          "above 0 and at most 1", [](float x) { return x > 0 && x <= 1; }),
      "fraction of the values that topk sends");
}

void add_update_options(po::options_description& description, Recipe& recipe) {
  auto add = description.add_options();
  LocalSteps& steps = recipe.local_steps;
  add("update", name_value(recipe.update, "update", {"sync", "local", "diloco"}),
      "what the ranks average: sync, the gradients of every step; local, the parameters after some "
      "steps of each rank; or diloco, which updates with the average change and outer momentum. "
      "local and diloco are for slow links");
  add("local-steps", count_value(steps.count, "local-steps", 1, kMostRecipeSteps),
      "local, diloco: steps of a rank between two exchanges");
  add("fragments", count_value(steps.fragments, "fragments", 1, 65536),
      "diloco: parts of the parameters, exchanged at different steps");
  add("overlap", count_value(steps.overlap, "overlap", 0, kMostRecipeSteps),
      "diloco: steps during which an exchange is in flight");
  add("mixing", number_value<float>(steps.mixing, "mixing", kFraction, is_fraction),
      "diloco with --overlap: weight of a rank's own parameters when the agreed ones arrive");
  add("outer-lr", number_value<float>(steps.outer_rate, "outer-lr", "above 0", is_above_0),
      "local, diloco (default 0.7): factor of the average change");
  add("outer-momentum",
      number_value<float>(steps.outer_momentum, "outer-momentum", kFraction, is_fraction),
      "local, diloco (default 0.9): Nesterov momentum of the average change");
}

AdamWOptions adamw_options(const Recipe& recipe) {
  return {.learning_rate = recipe.learning_rate,
          .beta1 = recipe.beta1,
          .beta2 = recipe.beta2,
          .epsilon = recipe.epsilon,
          .weight_decay = recipe.weight_decay,
          .coupled_decay = recipe.optimizer == "adam"};
}

std::unique_ptr<Optimizer> new_optimizer(const Recipe& recipe, Layer& model) {
  const std::string& name = recipe.optimizer;
  if (name == "lars")
    return std::make_unique<Lars>(model.parameters(),
                                  LarsOptions{.learning_rate = recipe.learning_rate,
                                              .momentum = recipe.momentum,
                                              .weight_decay = recipe.weight_decay,
                                              .trust_coefficient = recipe.trust_coefficient});
  if (name == "lamb") return std::make_unique<Lamb>(model.parameters(), adamw_options(recipe));
  if (name == "muon")
    return std::make_unique<Muon>(model.parameters(), MuonOptions{.adamw = adamw_options(recipe),
                                                                  .momentum = recipe.momentum});
  if (name != "sgd") return std::make_unique<AdamW>(model.parameters(), adamw_options(recipe));
  return std::make_unique<Sgd>(model.parameters(), SgdOptions{.learning_rate = recipe.learning_rate,
                                                              .momentum = recipe.momentum,
                                                              .weight_decay = recipe.weight_decay,
                                                              .nesterov = recipe.nesterov});
}

Decay decay_of(const Recipe& recipe) {
  if (recipe.schedule == "cosine") return Decay::kCosine;
  if (recipe.schedule == "polynomial") return Decay::kPolynomial;
  return recipe.schedule == "step" ? Decay::kStep : Decay::kConstant;
}

void check_sharding(const Recipe& recipe) {
  if (!recipe.shard_optimizer) return;
  const std::string& name = recipe.optimizer;
  HORO_CHECK(
      name == "sgd" || name == "adam" || name == "adamw",
      fmt::format("--shard-optimizer is for sgd, adam and adamw: {} needs whole layers", name));
  HORO_CHECK(recipe.wire == "float32" && recipe.compression == "none",
             "--shard-optimizer sends float32; leave --wire and --compression out");
}

void complete_update(Recipe& recipe, const po::variables_map& values) {
  const bool is_diloco = recipe.update == "diloco";
  for (const char* name : {"fragments", "overlap", "mixing"})
    HORO_CHECK(is_diloco || values[name].defaulted(),
               fmt::format("--{} is for --update diloco, not for {}", name, recipe.update));
  for (const char* name : {"local-steps", "outer-lr", "outer-momentum"})
    HORO_CHECK(recipe.update != "sync" || values[name].defaulted(),
               fmt::format("--{} is for --update local and diloco", name));
  HORO_CHECK(recipe.update == "sync" || !recipe.shard_optimizer,
             fmt::format("--update {} and --shard-optimizer exclude each other", recipe.update));
  const LocalSteps defaults = is_diloco ? diloco(1) : local_sgd(1);
  if (values["outer-lr"].defaulted()) recipe.local_steps.outer_rate = defaults.outer_rate;
  if (values["outer-momentum"].defaulted())
    recipe.local_steps.outer_momentum = defaults.outer_momentum;
}

}  // namespace

void add_recipe_options(po::options_description& description, Recipe& recipe) {
  add_optimizer_options(description, recipe);
  add_rate_options(description, recipe);
  add_update_options(description, recipe);
  add_exchange_options(description, recipe);
}

void complete_recipe(Recipe& recipe, const po::variables_map& values) {
  const auto known = defaults_of_optimizers().find(recipe.optimizer);
  if (known != defaults_of_optimizers().end()) {
    const Defaults& defaults = known->second;
    if (values["lr"].defaulted()) recipe.learning_rate = defaults.learning_rate;
    if (values["weight-decay"].defaulted()) recipe.weight_decay = defaults.weight_decay;
    if (values["momentum"].defaulted()) recipe.momentum = defaults.momentum;
  }
  HORO_CHECK(!recipe.nesterov || recipe.optimizer == "sgd",
             fmt::format("--nesterov is for --optimizer sgd, not for {}", recipe.optimizer));
  check_sharding(recipe);
  complete_update(recipe, values);
  HORO_CHECK(
      recipe.wire != "int8" || recipe.compression == "none",
      fmt::format("--wire int8 and --compression {} exclude each other", recipe.compression));
  HORO_CHECK(recipe.compression != "topk" || recipe.wire == "float32",
             fmt::format("--wire {} and --compression topk exclude each other", recipe.wire));
}

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe, Layer& model) {
  std::unique_ptr<Optimizer> optimizer = new_optimizer(recipe, model);
  std::vector<ParameterRule> rules = recipe.rules;
  const bool has_vector = std::ranges::any_of(model.parameters(), [](const Parameter* parameter) {
    return parameter->value.shape().rank() <= 1;
  });
  if (recipe.optimizer == "lars" && has_vector)
    rules.push_back({.vectors_only = true, .learning_rate = kVectorRateOfLars});
  optimizer->set_rules(std::move(rules));
  return optimizer;
}

bool scales_with_values(const Recipe& recipe) {
  return recipe.optimizer == "lars" || recipe.optimizer == "lamb";
}

// The rate rises from 0 during the warm-up and then follows the schedule. It depends on the steps
// of the whole run, so a shortened run starts like the full one.
LearningRateSchedule learning_rate_of(const Recipe& recipe, std::size_t global_batch,
                                      std::size_t steps) {
  LearningRateSchedule schedule{.decay = decay_of(recipe),
                                .base_rate = recipe.learning_rate,
                                .warm_up_steps = recipe.warm_up_steps,
                                .milestones = recipe.milestones,
                                .step_factor = recipe.step_factor,
                                .total_steps = steps,
                                .final_rate = recipe.final_rate,
                                .power = recipe.power};
  if (recipe.base_batch > 0)
    schedule.base_rate = linear_scaling(schedule.base_rate, recipe.base_batch, global_batch);
  if (schedule.milestones.empty()) schedule.milestones = {steps / 2, steps / 4 * 3};
  // A run that ends within its warm-up has no steps left for a decay.
  if (steps <= recipe.warm_up_steps) schedule.decay = Decay::kConstant;
  return schedule;
}

LocalSteps local_steps_of(const Recipe& recipe) {
  return recipe.update == "sync" ? LocalSteps{} : recipe.local_steps;
}

std::shared_ptr<const Loss> loss_of(const Recipe& recipe) {
  return std::make_shared<CrossEntropy>(
      CrossEntropyOptions{.label_smoothing = recipe.label_smoothing});
}

horo::Compression compression_of(const Recipe& recipe) {
  using Kind = horo::Compression::Kind;
  horo::Compression compression{.rank = recipe.compression_rank,
                                .fraction = recipe.compression_fraction};
  if (recipe.wire == "int8") compression.kind = Kind::kInt8;
  if (recipe.compression == "powersgd") compression.kind = Kind::kPowerSgd;
  if (recipe.compression == "topk") compression.kind = Kind::kTopK;
  return compression;
}

bool is_compressed(const Recipe& recipe) {
  return compression_of(recipe).kind != horo::Compression::Kind::kNone;
}

std::optional<horo::DataType> wire_of(const Recipe& recipe) {
  if (recipe.wire == "bfloat16") return horo::DataType::kBFloat16;
  if (recipe.wire == "float16") return horo::DataType::kFloat16;
  return std::nullopt;
}
