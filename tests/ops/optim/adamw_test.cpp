#include "ops/optim/adamw.h"

#include <cmath>

#include "horo/base/error.h"
#include "ops/nn/initialise.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

Parameter varied_parameter(std::size_t count, std::uint32_t seed) {
  Parameter parameter = make_parameter("p", {count});
  assign(parameter.value, varied_values(count, seed));
  return parameter;
}

// The definition, in double.
struct Reference {
  AdamWOptions options;
  reference::Values value;
  reference::Values first = reference::Values(value.size());
  reference::Values second = reference::Values(value.size());
  int steps = 0;

  void step(const reference::Values& gradient) {
    ++steps;
    const double coupled = options.coupled_decay ? options.weight_decay : 0;
    const double decoupled = options.weight_decay - coupled;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double slope = gradient[i] + coupled * value[i];
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * slope;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * slope * slope;
      const double mean = first[i] / (1 - std::pow(options.beta1, steps));
      const double square = second[i] / (1 - std::pow(options.beta2, steps));
      value[i] -= options.learning_rate *
                  (mean / (std::sqrt(square) + options.epsilon) + decoupled * value[i]);
    }
  }
};

void expect_definition(bool coupled_decay) {
  const AdamWOptions options{.learning_rate = 0.05f,
                             .beta1 = 0.8f,
                             .beta2 = 0.95f,
                             .epsilon = 1e-4f,
                             .weight_decay = 0.1f,
                             .coupled_decay = coupled_decay};
  Parameter a = varied_parameter(37, 1), b = varied_parameter(5, 2);
  Reference expected_a{options, in_double(a.value.values())};
  Reference expected_b{options, in_double(b.value.values())};
  AdamW adamw({&a, &b}, options);
  for (std::uint32_t step = 1; step <= 20; ++step) {
    assign(a.gradient, varied_values(37, 100 + step));
    assign(b.gradient, varied_values(5, 200 + step));
    expected_a.step(in_double(a.gradient.values()));
    expected_b.step(in_double(b.gradient.values()));
    adamw.step();
  }
  EXPECT_EQ(adamw.steps(), 20);
  expect_close(a.value.values(), expected_a.value, 1e-5);
  expect_close(b.value.values(), expected_b.value, 1e-5);
  expect_close(adamw.first_moments()[0].values(), expected_a.first, 1e-6);
  expect_close(adamw.second_moments()[1].values(), expected_b.second, 1e-6);
  EXPECT_EQ(values_of(a.gradient), varied_values(37, 120));
}

TEST(AdamW, FollowsTheDefinition) { expect_definition(false); }

TEST(AdamW, IsAdamWithCoupledDecay) {
  expect_definition(true);
  EXPECT_TRUE(AdamW({}, {.coupled_decay = true}).describe().starts_with("Adam with"));
}

TEST(AdamW, FirstStepHasLengthOfLearningRate) {
  Parameter p = make_parameter("p", {2});
  assign(p.value, {1, 2});
  assign(p.gradient, {1e-3f, -1e3f});
  AdamW({&p}, {.learning_rate = 0.25f, .weight_decay = 0}).step();
  EXPECT_NEAR(p.value.values()[0], 0.75f, 1e-4);
  EXPECT_NEAR(p.value.values()[1], 2.25f, 1e-4);
}

TEST(AdamW, DecayDoesNotChangeMoments) {
  Parameter p = make_parameter("p", {1});
  assign(p.value, {8});
  assign(p.gradient, {0});
  AdamW adamw({&p}, {.learning_rate = 0.5f, .weight_decay = 0.25f});
  adamw.step();
  EXPECT_EQ(values_of(p.value), std::vector<float>{7});
  EXPECT_EQ(values_of(adamw.first_moments()[0]), std::vector<float>{0});
}

TEST(AdamW, ResumesFromACheckpoint) {
  Parameter whole = varied_parameter(9, 4), resumed = varied_parameter(9, 4);
  assign(whole.gradient, varied_values(9, 5));
  assign(resumed.gradient, varied_values(9, 5));
  AdamW first({&whole}, {}), second({&resumed}, {});
  first.step();
  second.step();
  AdamW third({&resumed}, {});
  assign(third.first_moments()[0], values_of(second.first_moments()[0]));
  assign(third.second_moments()[0], values_of(second.second_moments()[0]));
  third.set_steps(second.steps());
  first.step();
  third.step();
  EXPECT_EQ(values_of(whole.value), values_of(resumed.value));
}

TEST(AdamW, RefusesOptionsOutOfRange) {
  const auto text = [](const AdamWOptions& options) {
    return message_of<InvalidArgument>([&] { AdamW({}, options); });
  };
  EXPECT_EQ(text({.learning_rate = -1}),
            "AdamW: learning rate is -1; must be finite and at least 0");
  EXPECT_EQ(text({.beta1 = 1}), "AdamW: beta1 is 1; must be in [0, 1)");
  EXPECT_EQ(text({.beta2 = -0.5f}), "AdamW: beta2 is -0.5; must be in [0, 1)");
  EXPECT_EQ(text({.epsilon = 0}), "AdamW: epsilon is 0; must be above 0");
  EXPECT_EQ(text({.weight_decay = -0.5f}), "AdamW: weight decay is -0.5; must be at least 0");
  AdamW adamw({}, {});
  EXPECT_THROW(adamw.set_learning_rate(std::nanf("")), InvalidArgument);
  EXPECT_THROW(adamw.set_steps(-1), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
