#include "ops/nn/models/models.h"

#include "horo/base/error.h"
#include "tests/ops/support/losses.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

std::vector<std::string> parameter_names(Sequential& network) {
  std::vector<std::string> names;
  for (const Parameter* parameter : network.parameters()) names.push_back(parameter->name);
  return names;
}

/// A training step on random images: logits of the right shape, every parameter reported once.
void expect_trains(Sequential& network, const Shape& input, std::size_t classes) {
  const auto samples = sample_indices(input[0]);
  const Pass pass{.training = true, .seed = 5, .samples = samples};
  Tensor logits = network.forward(varied_tensor(input, 1), pass);
  ASSERT_EQ(logits.shape(), (Shape{input[0], classes}));
  const std::vector<std::int32_t> labels(input[0], 1);
  auto loss = cross_entropy_loss(std::move(logits), labels, static_cast<double>(input[0]));
  std::vector<std::string> ready;
  (void)network.backward(std::move(loss.gradient),
                         [&](const Parameter& parameter) { ready.push_back(parameter.name); });
  auto expected = parameter_names(network);
  std::ranges::sort(expected);
  std::ranges::sort(ready);
  EXPECT_EQ(ready, expected);
}

TEST(Models, Mlp) {
  auto network = make_mlp();
  EXPECT_EQ(parameter_names(*network),
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "output.weight", "output.bias"}));
  expect_trains(*network, {3, 1, 28, 28}, 10);
  auto with_options = make_mlp(
      {.input = {12}, .hidden = {8, 6}, .classes = 4, .batch_norm = true, .dropout = 0.2f});
  EXPECT_EQ(with_options->buffers().size(), 4u);
  expect_trains(*with_options, {5, 12}, 4);
  auto linear = make_mlp({.input = {3, 5}, .hidden = {}, .classes = 2});
  EXPECT_EQ(parameter_names(*linear), (std::vector<std::string>{"output.weight", "output.bias"}));
  expect_trains(*linear, {1, 3, 5}, 2);
}

TEST(Models, Cnn) {
  auto network = make_cnn();
  EXPECT_EQ(parameter_names(*network),
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "fc1.weight", "fc1.bias", "output.weight", "output.bias"}));
  expect_trains(*network, {3, 1, 28, 28}, 10);
  auto with_options = make_cnn({.input = {3, 32, 31},
                                .channels = {8, 12, 16},
                                .kernel = 3,
                                .padding = 1,
                                .hidden = {},
                                .classes = 7,
                                .batch_norm = true});
  EXPECT_EQ(parameter_names(*with_options).front(), "conv1.weight");
  EXPECT_EQ(with_options->buffers().size(), 6u);
  expect_trains(*with_options, {5, 3, 32, 31}, 7);
}

// The published count is that of the usual variant for CIFAR-10 without the bias of the
// convolutions, which the normalisation replaces.
TEST(Models, Vgg11) {
  auto network = make_vgg11();
  std::size_t count = 0;
  for (const Parameter* parameter : network->parameters()) count += parameter->value.count();
  EXPECT_EQ(count, 9231114u - 2752u);
  EXPECT_EQ(parameter_names(*network).back(), "output.bias");
  EXPECT_EQ(network->forward(varied_tensor({2, 3, 32, 32}, 1), {}).shape(), (Shape{2, 10}));
  auto small = make_vgg11({.input = {1, 64, 33}, .hidden = {9}, .classes = 4, .batch_norm = false});
  EXPECT_EQ(small->buffers().size(), 0u);
  EXPECT_EQ(small->forward(varied_tensor({1, 1, 64, 33}, 1), {}).shape(), (Shape{1, 4}));
}

TEST(Models, TooSmallImagesAreNamed) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              (void)make_vgg11({.input = {3, 32, 28}});
            }),
            "make_vgg11: input [3, 32, 28]; expected channels, height and width, of at least 32 x "
            "32 pixels");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              (void)make_cnn({.input = {1, 12, 12}});
            }),
            "make_cnn: input [1, 12, 12] is too small for 2 stages of a 5 x 5 kernel with padding "
            "0; the image before stage 2 is [16, 4, 4]");
  EXPECT_EQ(message_of<InvalidArgument>([] { (void)make_cnn({.input = {784}}); }),
            "make_cnn: input has shape [784]; expected [channels, height, width]");
}

TEST(Models, SeedDecidesTheWeights) {
  const auto first_weight = [](std::uint64_t seed) {
    return values_of(make_cnn({.seed = seed})->parameters()[0]->value);
  };
  EXPECT_EQ(first_weight(1), first_weight(1));
  EXPECT_NE(first_weight(1), first_weight(2));
}

}  // namespace
}  // namespace horo::ops
