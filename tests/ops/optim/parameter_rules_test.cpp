#include "ops/optim/parameter_rules.h"

#include "horo/base/error.h"
#include "ops/nn/initialise.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

struct ThreeParameters {
  Parameter weight = make_parameter("block1.weight", {2, 2});
  Parameter bias = make_parameter("block1.bias", {2});
  Parameter output = make_parameter("output.weight", {1, 2});
  std::vector<Parameter*> all{&weight, &bias, &output};
};

TEST(ParameterRules, MultiplyTheFactorsOfAllMatches) {
  ThreeParameters of;
  const std::vector<ParameterRule> rules = {
      {.pattern = "block?.*", .learning_rate = 0.5f, .weight_decay = 4},
      {.vectors_only = true, .weight_decay = 0},
      {.pattern = "*.weight", .learning_rate = 3}};
  EXPECT_EQ(factors_of(of.all, rules), (std::vector<RateFactors>{{1.5f, 4}, {0.5f, 0}, {3, 1}}));
  EXPECT_EQ(factors_of(of.all, {}), std::vector<RateFactors>(3));
  EXPECT_EQ(describe(rules),
            "; learning rate of block?.* times 0.5, weight decay of block?.* times 4, "
            "weight decay of vectors * times 0, learning rate of *.weight times 3");
}

TEST(ParameterRules, RejectPatternsWithoutAMatchAndBadFactors) {
  ThreeParameters of;
  const auto text = [&](const ParameterRule& rule) {
    return message_of<InvalidArgument>([&] { (void)factors_of(of.all, {&rule, 1}); });
  };
  EXPECT_EQ(text({.pattern = "outptu.*"}),
            "parameter rule outptu.*: no parameter of the model has such a name; the first of 3 "
            "parameters is block1.weight");
  EXPECT_EQ(text({.pattern = "output.*", .vectors_only = true}),
            "parameter rule output.*: no vector of the model has such a name; the first of 3 "
            "parameters is block1.weight");
  EXPECT_EQ(text({.learning_rate = -1}),
            "parameter rule *: the factor of the learning rate is -1; must be at least 0");
}

TEST(ParameterRules, ApplyToEveryStepOfSgdAndAdamW) {
  ThreeParameters of;
  for (Parameter* parameter : of.all) {
    parameter->value.fill(8);
    parameter->gradient.fill(1);
  }
  Sgd sgd(of.all, {.learning_rate = 0.5f, .weight_decay = 0.25f});
  sgd.set_rules(
      {{.pattern = "*.bias", .weight_decay = 0}, {.pattern = "output.*", .learning_rate = 0.25f}});
  sgd.step();
  EXPECT_EQ(of.weight.value.values()[3], 8 - 0.5f * (1 + 2));
  EXPECT_EQ(of.bias.value.values()[1], 8 - 0.5f);
  EXPECT_EQ(of.output.value.values()[1], 8 - 0.125f * (1 + 2));
  EXPECT_NE(sgd.describe().find("weight decay of *.bias times 0"), std::string::npos);

  for (Parameter* parameter : of.all) {
    parameter->value.fill(8);
    parameter->gradient.fill(0);
  }
  AdamW adamw(of.all, {.learning_rate = 0.5f, .weight_decay = 0.25f});
  adamw.set_rules(
      {{.vectors_only = true, .weight_decay = 0}, {.pattern = "output.*", .learning_rate = 0.5f}});
  adamw.step();  // without a gradient only the decay is left
  EXPECT_EQ(of.weight.value.values()[0], 7);
  EXPECT_EQ(of.bias.value.values()[0], 8);
  EXPECT_EQ(of.output.value.values()[0], 7.5f);
}

TEST(ParameterRules, KeepTheFormerRulesAfterAnError) {
  ThreeParameters of;
  Sgd sgd(of.all, {});
  sgd.set_rules({{.pattern = "output.*", .learning_rate = 2}});
  const std::string before = sgd.describe();
  EXPECT_THROW(sgd.set_rules({{.pattern = "nothing"}}), InvalidArgument);
  EXPECT_EQ(sgd.describe(), before);
}

}  // namespace
}  // namespace horo::ops
