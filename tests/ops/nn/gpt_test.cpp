#include "ops/nn/models/gpt.h"

#include <cmath>
#include <set>

#include "horo/base/error.h"
#include "ops/nn/loss.h"
#include "ops/optim/adamw.h"
#include "tests/ops/support/passes.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

const GptOptions kSmall{
    .vocabulary = 7, .positions = 6, .layers = 2, .heads = 2, .width = 8, .seed = 3};

Tensor tokens_of(const Shape& shape, std::uint32_t seed) {
  Tensor tensor(shape, DataType::kInt32);
  std::uint32_t token = seed;
  for (std::int32_t& value : tensor.values<std::int32_t>())
    value = static_cast<std::int32_t>((token = token * 5 + 3) % 7);
  return tensor;
}

Parameter& parameter_of(Layer& model, const std::string& name) {
  for (Parameter* parameter : model.parameters())
    if (parameter->name == name) return *parameter;
  throw InvalidArgument("no parameter " + name);
}

double deviation_of(const Parameter& parameter) {
  double squares = 0;
  for (const double value : parameter.value.values()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(parameter.value.count()));
}

TEST(Gpt, StartsWithTheWeightsOfGpt2) {
  const auto model = make_gpt({.vocabulary = 50, .positions = 40, .layers = 3, .width = 64});
  EXPECT_NEAR(deviation_of(parameter_of(*model, "embedding.weight")), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(parameter_of(*model, "embedding.position_weight")), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(parameter_of(*model, "block2.attention.heads.qkv.weight")), 0.02, 0.001);
  const double at_end = 0.02 / std::sqrt(6.0);
  EXPECT_NEAR(deviation_of(parameter_of(*model, "block1.attention.heads.output.weight")), at_end,
              0.0005);
  EXPECT_NEAR(deviation_of(parameter_of(*model, "block3.mlp.output.weight")), at_end, 0.0005);
  EXPECT_EQ(deviation_of(parameter_of(*model, "block1.mlp.fc.bias")), 0);
  EXPECT_EQ(deviation_of(parameter_of(*model, "norm.weight")), 1);
  EXPECT_EQ(parameter_of(*model, "head.weight").value.shape(), (Shape{50, 64}));
}

/// The mean loss of one batch.
double loss_of(Layer& model, const Tensor& tokens, const Tensor& targets, bool with_gradients) {
  const auto samples = sample_indices(tokens.shape()[0]);
  const Pass pass{.training = with_gradients, .seed = 5, .step = 2, .samples = samples};
  Tensor logits = model.forward(tokens.clone(), pass);
  BatchScore score;
  const auto count = static_cast<double>(tokens.shape()[0]);
  Tensor gradient =
      CrossEntropy().backward(cpu_backend(), std::move(logits), targets, count, &score);
  if (with_gradients) (void)model.backward(std::move(gradient), {});
  return score.loss;
}

// Dropout draws the same mask in every pass, so the loss is a function of the parameters.
TEST(Gpt, GradientsAreThoseOfTheLoss) {
  for (const float dropout : {0.0f, 0.3f}) {
    GptOptions options = kSmall;
    options.dropout = dropout;
    const auto model = make_gpt(options);
    for (Parameter* parameter : model->parameters())  // large enough for finite differences
      for (float& value : parameter->value.values()) value *= 4;
    const Tensor tokens = tokens_of({3, 5}, 1), targets = tokens_of({3, 5}, 4);
    (void)loss_of(*model, tokens, targets, true);
    std::vector<std::vector<float>> gradients;
    for (const Parameter* parameter : model->parameters())
      gradients.push_back(values_of(parameter->gradient));
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      Parameter* const parameter = model->parameters()[p];
      const auto& gradient = gradients[p];
      // The derivative along one direction for each parameter.
      const auto direction = varied_values(gradient.size(), 8);
      double expected = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        expected += static_cast<double>(gradient[i]) * static_cast<double>(direction[i]);
      const auto before = values_of(parameter->value);
      const auto loss_at = [&](float distance) {
        for (std::size_t i = 0; i < before.size(); ++i)
          parameter->value.values()[i] = before[i] + distance * direction[i];
        return loss_of(*model, tokens, targets, true);
      };
      const double difference = (loss_at(1e-4f) - loss_at(-1e-4f)) / 2e-4;
      assign(parameter->value, before);
      EXPECT_NEAR(difference, expected, 1e-2 + 2e-2 * std::abs(expected)) << parameter->name;
    }
  }
}

TEST(Gpt, LearnsACycle) {
  const auto model = make_gpt(kSmall);
  AdamW optimizer(model->parameters(), {.learning_rate = 1e-2f, .weight_decay = 0});
  Tensor tokens({4, 6}, DataType::kInt32), targets({4, 6}, DataType::kInt32);
  for (std::size_t i = 0; i < 24; ++i) {
    const auto token = static_cast<std::int32_t>((i / 6 + i % 6) % 7);
    tokens.values<std::int32_t>()[i] = token;
    targets.values<std::int32_t>()[i] = (token + 1) % 7;
  }
  const double first = loss_of(*model, tokens, targets, false);
  EXPECT_NEAR(first, std::log(7.0), 0.05);
  for (int step = 0; step < 60; ++step) {
    (void)loss_of(*model, tokens, targets, true);
    optimizer.step();
  }
  EXPECT_LT(loss_of(*model, tokens, targets, false), 0.1);
  const std::vector<std::int32_t> prompt{2, 3};
  const auto more = generate_tokens(*model, prompt, {.count = 9, .positions = 6, .temperature = 0});
  EXPECT_EQ(more, (std::vector<std::int32_t>{4, 5, 6, 0, 1, 2, 3, 4, 5}));
}

TEST(GenerateTokens, ChoosesBySeedTemperatureAndRank) {
  const auto model = make_gpt(kSmall);
  const std::vector<std::int32_t> prompt{1};
  const auto generated = [&](float temperature, std::size_t top_k, std::uint64_t seed) {
    return generate_tokens(
        *model, prompt,
        {.count = 40, .positions = 6, .temperature = temperature, .top_k = top_k, .seed = seed});
  };
  EXPECT_EQ(generated(1, 0, 1), generated(1, 0, 1));
  EXPECT_NE(generated(1, 0, 1), generated(1, 0, 2));
  EXPECT_EQ(generated(1, 1, 1), generated(0, 0, 2));
  EXPECT_EQ(generated(1e-6f, 0, 1), generated(0, 0, 1));
  // At this temperature the tokens are nearly equally likely.
  const auto all = generated(100, 0, 1), few = generated(100, 3, 1);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 7u);
  EXPECT_GT(std::set(few.begin(), few.end()).size(), 1u);
}

TEST(GenerateTokens, NamesWrongOptions) {
  const auto model = make_gpt(kSmall);
  const std::vector<std::int32_t> prompt{1};
  const auto error_of = [&](std::span<const std::int32_t> tokens,
                            const GenerationOptions& options) {
    return message_of<InvalidArgument>([&] { (void)generate_tokens(*model, tokens, options); });
  };
  EXPECT_EQ(error_of({}, {.positions = 6}),
            "generation: the prompt is empty; begin with at least one token");
  EXPECT_EQ(error_of(prompt, {}), "generation: positions is 0; set it to the model's");
  EXPECT_EQ(error_of(prompt, {.positions = 6, .temperature = -1}),
            "generation: temperature is -1; must be at least 0");
  EXPECT_EQ(message_of<InvalidArgument>([] { (void)make_gpt({.vocabulary = 5, .layers = 0}); }),
            "make_gpt: 64 positions, 0 layers; each must be at least 1");
}

}  // namespace
}  // namespace horo::ops
