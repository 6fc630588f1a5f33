// Small networks end to end: the loss decreases, gradients agree with central differences, and
// repeated runs have the same bits.
#include "ops/nn/models/models.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/losses.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {
namespace {

TEST(Training, LearnsXor) {
  auto network = make_mlp({.input = {2}, .hidden = {8}, .classes = 2, .seed = 1});
  Sgd sgd(network->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
  const std::vector<std::int32_t> labels{0, 1, 1, 0};
  const Tensor input = tensor_of({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1});
  CrossEntropyResult loss;
  for (int step = 0; step < 400; ++step) {
    loss = cross_entropy_loss(network->forward(input.clone(), {.training = true}), labels, 4);
    (void)network->backward(std::move(loss.gradient), {});
    sgd.step();
  }
  EXPECT_LT(loss.value, 0.02);
  EXPECT_EQ(loss.correct, 4u);
}

/// Images of 8 x 8 noise with a bright bar: upright (class 0), level (1) or none (2).
Tensor bars(std::vector<std::int32_t>& labels, std::size_t batch, std::uint32_t seed) {
  Tensor images = varied_tensor({batch, 1, 8, 8}, seed);
  labels.resize(batch);
  for (std::size_t n = 0; n < batch; ++n) {
    const std::size_t at = (n * 7 + seed) % 8;
    labels[n] = static_cast<std::int32_t>((n + seed) % 3);
    for (std::size_t i = 0; i < 8 && labels[n] < 2; ++i) {
      images.data()[n * 64 + (labels[n] == 0 ? i * 8 + at : at * 8 + i)] += 1.5f;
    }
  }
  return images;
}

struct TrainingRun {
  std::vector<std::vector<float>> parameters;
  std::vector<double> losses;
  std::size_t correct = 0;  // of 300 unseen images
};

TrainingRun train_on_bars(std::uint64_t seed) {
  auto network = make_cnn({.input = {1, 8, 8},
                           .channels = {8},
                           .kernel = 3,
                           .padding = 1,
                           .hidden = {16},
                           .classes = 3,
                           .batch_norm = true,
                           .dropout = 0.2f,
                           .seed = seed});
  Sgd sgd(network->parameters(), {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 1e-4f});
  TrainingRun run;
  std::vector<std::int32_t> labels;
  for (std::uint32_t step = 0; step < 120; ++step) {
    Tensor images = bars(labels, 32, step);
    const auto samples = sample_indices(32, step * 32);
    Tensor logits = network->forward(
        std::move(images), {.training = true, .seed = seed, .step = step, .samples = samples});
    auto loss = cross_entropy_loss(std::move(logits), labels, 32);
    run.losses.push_back(loss.value);
    (void)network->backward(std::move(loss.gradient), {});
    sgd.step();
  }
  for (const Parameter* parameter : network->parameters()) {
    run.parameters.push_back(values_of(parameter->value));
  }
  Tensor unseen = bars(labels, 300, 1000);
  run.correct = cross_entropy_loss(network->forward(std::move(unseen), {}), labels, 300).correct;
  return run;
}

TEST(Training, ConvolutionalNetworkLearnsBarsWithTheSameBitsTwice) {
  const TrainingRun first = train_on_bars(7);
  EXPECT_GE(first.correct, 285u);
  EXPECT_LT(first.losses.back(), 0.5 * first.losses.front());
  const TrainingRun second = train_on_bars(7);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.parameters, second.parameters);
  EXPECT_NE(first.losses, train_on_bars(8).losses);
}

TEST(Training, GradientsAgreeWithCentralDifferences) {
  auto network = make_cnn({.input = {2, 6, 7},
                           .channels = {3},
                           .kernel = 3,
                           .hidden = {5},
                           .classes = 4,
                           .batch_norm = true,
                           .dropout = 0.3f,
                           .seed = 2});
  const Tensor input = varied_tensor({6, 2, 6, 7}, 1);
  const std::vector<std::int32_t> labels{0, 3, 1, 2, 2, 0};
  const auto samples = sample_indices(6);
  const Pass pass{.training = true, .seed = 4, .samples = samples};
  const auto loss = [&] {
    return cross_entropy_loss(network->forward(input.clone(), pass), labels, 6);
  };
  (void)network->backward(loss().gradient, {});
  for (Parameter* parameter : network->parameters()) {
    const auto gradient = values_of(parameter->gradient);
    const auto values = parameter->value.values();
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 7) {
      constexpr float kStep = 2e-4f;  // small: pooling and ReLU have kinks
      EXPECT_NEAR(central_difference([&] { return loss().value; }, values[i], kStep), gradient[i],
                  4e-3)
          << parameter->name << " at " << i;
    }
  }
}

}  // namespace
}  // namespace horo::ops
