#include "examples/training/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "examples/training/train_options.h"
#include "horo/base/error.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/models/models.h"
#include "ops/optim/adamw.h"
#include "ops/optim/lamb.h"
#include "ops/optim/lars.h"
#include "ops/optim/muon.h"
#include "ops/optim/sgd.h"

namespace {

using namespace horo::ops;
using ::testing::HasSubstr;

Recipe parse(std::vector<std::string> arguments) {
  const TrainCommand command{.program = "train",
                             .purpose = "Trains.",
                             .data_help = "",
                             .model_help = "",
                             .models = {"mlp"},
                             .defaults = {.model = "mlp"}};
  arguments.insert(arguments.begin(), "train");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return parse_train_options(command, static_cast<int>(argv.size()), argv.data())->recipe;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const horo::InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

std::unique_ptr<Sequential> small_model() {
  return make_mlp({.input = {4}, .hidden = {3}, .classes = 2});
}

std::string optimizer_of(const std::vector<std::string>& arguments) {
  const auto model = small_model();
  return make_optimizer(parse(arguments), *model)->describe();
}

TEST(Recipe, MakesEachOptimizerWithItsDefaults) {
  const auto model = small_model();
  const auto expect = [&](const std::string& name, float rate, const Optimizer& expected) {
    const Recipe recipe = parse({"--optimizer", name});
    const auto made = make_optimizer(recipe, *model);
    EXPECT_EQ(made->describe().substr(0, expected.describe().size()), expected.describe());
    EXPECT_EQ(made->learning_rate(), rate) << name;
    EXPECT_EQ(recipe.learning_rate, rate) << name;
  };
  const auto parameters = model->parameters();
  expect("sgd", 0.05f, Sgd(parameters, {.momentum = 0.9f, .weight_decay = 1e-4f}));
  expect("adam", 1e-3f, AdamW(parameters, {.weight_decay = 0, .coupled_decay = true}));
  expect("adamw", 1e-3f, AdamW(parameters, {}));
  expect("lars", 1, Lars(parameters, {.weight_decay = 1e-4f}));
  expect("lamb", 5e-3f, Lamb(parameters, {}));
  expect("muon", 1e-3f, Muon(parameters, {}));
}

TEST(Recipe, OptionsReplaceDefaultsOfOptimizers) {
  const Recipe recipe =
      parse({"--optimizer", "muon", "--lr", "0.25", "--weight-decay", "0.5", "--momentum", "0.75"});
  EXPECT_EQ(recipe.learning_rate, 0.25f);
  EXPECT_EQ(recipe.weight_decay, 0.5f);
  EXPECT_EQ(recipe.momentum, 0.75f);
  EXPECT_THAT(optimizer_of({"--nesterov"}), HasSubstr("esterov"));
}

TEST(Recipe, RatesOfParameters) {
  EXPECT_THAT(optimizer_of({"--rate", "output.*=10", "--rate", "*.bias=0.5", "--no-vector-decay"}),
              HasSubstr("weight decay of vectors * times 0, learning rate of output.* times 10, "
                        "learning rate of *.bias times 0.5"));
  EXPECT_THAT(optimizer_of({"--optimizer", "lars"}),
              HasSubstr("learning rate of vectors * times 0.05"));
  EXPECT_THAT(error_of([] {
                optimizer_of({"--rate", "head.*=10"});
              }),
              HasSubstr("no parameter of the model has such a name"));
}

TEST(Recipe, Schedules) {
  const auto rates = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"--lr", "0.5", "--warm-up", "10"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const LearningRateSchedule schedule = learning_rate_of(parse(all), 64, 110);
    std::vector<double> rates;
    for (const std::size_t step : {5, 10, 60, 90, 110})
      rates.push_back(learning_rate_at(schedule, step));
    return rates;
  };
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  const auto near = [](double rate) { return DoubleNear(rate, 1e-6); };
  EXPECT_THAT(rates({"--schedule", "constant"}),
              ElementsAre(near(0.25), near(0.5), near(0.5), near(0.5), near(0.5)));
  EXPECT_THAT(rates({"--final-lr", "0.1"}),
              ElementsAre(near(0.25), near(0.5), near(0.3), near(0.1381966), near(0.1)));
  EXPECT_THAT(rates({"--schedule", "polynomial", "--lr-power", "2"}),
              ElementsAre(near(0.25), near(0.5), near(0.125), near(0.02), near(0)));
  EXPECT_THAT(rates({"--schedule", "step", "--lr-milestones", "60,100", "--lr-factor", "0.2"}),
              ElementsAre(near(0.25), near(0.5), near(0.1), near(0.1), near(0.02)));
  EXPECT_THAT(rates({"--schedule", "step"}),  // after 55 and 81 of 110 steps
              ElementsAre(near(0.25), near(0.5), near(0.05), near(0.005), near(0.005)));
  EXPECT_THAT(rates({"--schedule", "constant", "--linear-scaling", "16"}),
              ElementsAre(near(1), near(2), near(2), near(2), near(2)));
}

TEST(Recipe, WireAndCompression) {
  using Kind = horo::Compression::Kind;
  EXPECT_EQ(wire_of(parse({})), std::nullopt);
  EXPECT_EQ(wire_of(parse({"--wire", "bf16"})), horo::DataType::kBFloat16);
  EXPECT_EQ(wire_of(parse({"--wire", "f16"})), horo::DataType::kFloat16);
  EXPECT_EQ(wire_of(parse({"--wire", "float16"})), horo::DataType::kFloat16);
  const Recipe int8 = parse({"--wire", "int8"});
  EXPECT_EQ(wire_of(int8), std::nullopt);
  EXPECT_EQ(compression_of(int8).kind, Kind::kInt8);
  EXPECT_EQ(compression_of(parse({"--compression", "powersgd"})).kind, Kind::kPowerSgd);
  EXPECT_FALSE(is_compressed(parse({"--wire", "bfloat16"})));
}

TEST(Recipe, LocalSteps) {
  EXPECT_EQ(describe(local_steps_of(parse({}))), "off");
  EXPECT_EQ(describe(local_steps_of(parse({"--update", "local", "--local-steps", "5"}))),
            describe(local_sgd(5)));
  const Recipe recipe = parse({"--update", "diloco", "--local-steps", "8", "--fragments", "4",
                               "--overlap", "2", "--mixing", "0.25", "--outer-lr", "0.5"});
  EXPECT_EQ(describe(local_steps_of(recipe)),
            "{count 8, fragments 4, overlap 2, mixing 0.25, outer_rate 0.5, outer_momentum 0.9}");
}

TEST(Recipe, LabelSmoothing) {
  EXPECT_EQ(loss_of(parse({"--label-smoothing", "0.125"}))->describe(),
            CrossEntropy({.label_smoothing = 0.125f}).describe());
}

TEST(Recipe, RefusesBadValues) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& text) {
    EXPECT_EQ(error_of([&] { parse(arguments); }), text);
  };
  expect({"--optimizer", "adagrad"},
         "--optimizer adagrad: choose sgd, adam, adamw, lars, lamb or muon");
  expect({"--optimizer", "lars", "--nesterov"}, "--nesterov is for --optimizer sgd, not for lars");
  expect({"--wire", "int4"}, "--wire int4: choose float32, bfloat16, float16 or int8");
  expect({"--wire", "int8", "--compression", "topk"},
         "--wire int8 and --compression topk exclude each other");
  expect({"--wire", "bf16", "--compression", "topk"},
         "--wire bfloat16 and --compression topk exclude each other");
  expect({"--shard-optimizer", "--optimizer", "lamb"},
         "--shard-optimizer is for sgd, adam and adamw: lamb needs whole layers");
  expect({"--shard-optimizer", "--wire", "int8"},
         "--shard-optimizer sends float32; leave --wire and --compression out");
  expect({"--local-steps", "4"}, "--local-steps is for --update local and diloco");
  expect({"--update", "local", "--overlap", "1"},
         "--overlap is for --update diloco, not for local");
  expect({"--update", "local", "--shard-optimizer"},
         "--update local and --shard-optimizer exclude each other");
  expect({"--rate", "output"},
         "--rate output: the value must be PATTERN=FACTOR, such as output.*=10");
  expect({"--rate", "output.*=fast"},
         "--rate output.* fast: the value must be a number of at least 0");
  expect({"--lr-milestones", "30,20"}, "--lr-milestones 30,20: the steps must be ascending");
  expect({"--lr-milestones", "30,"},
         "--lr-milestones : the value must be a whole number from 1 to 1000000000");
}

}  // namespace
