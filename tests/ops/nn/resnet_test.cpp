#include "ops/nn/models/resnet.h"

#include "horo/base/error.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/losses.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {
namespace {

std::size_t parameter_count(Layer& layer) {
  std::size_t count = 0;
  for (const Parameter* parameter : layer.parameters()) count += parameter->value.count();
  return count;
}

/// The number of layers with weights, without the projections.
std::size_t layer_count(Layer& network) {
  return static_cast<std::size_t>(
      std::ranges::count_if(network.parameters(), [](const Parameter* parameter) {
        return parameter->value.shape().rank() > 1 &&
               parameter->name.find("shortcut") == std::string::npos;
      }));
}

// Table 6 of the paper says 0.27 million, for shortcuts without parameters; the projections of the
// two smaller stages add 16 * 32 + 2 * 32 and 32 * 64 + 2 * 64.
TEST(Resnet, TwentyLayersMatchPublishedParameters) {
  auto network = make_resnet20();
  constexpr std::size_t kPlain = (3 * 16 * 9 + 2 * 16) + 6 * (16 * 16 * 9 + 2 * 16) +
                                 (16 * 32 * 9 + 2 * 32) + 5 * (32 * 32 * 9 + 2 * 32) +
                                 (32 * 64 * 9 + 2 * 64) + 5 * (64 * 64 * 9 + 2 * 64) +
                                 (64 * 10 + 10);
  static_assert(kPlain == 269722);
  EXPECT_EQ(parameter_count(*network), kPlain + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64);
  EXPECT_EQ(layer_count(*network), 20u);
  EXPECT_EQ(network->parameters().front()->name, "conv.weight");
  EXPECT_EQ(network->forward(varied_tensor({2, 3, 32, 32}, 1), {}).shape(), (Shape{2, 10}));
}

// The ImageNet network has 11,689,512 parameters, with a first kernel of 7 x 7 in place of 3 x 3
// and 1000 classes.
TEST(Resnet, EighteenLayersHaveImageNetStages) {
  auto network = make_resnet18();
  EXPECT_EQ(parameter_count(*network),
            11689512u - 64 * 3 * (49 - 9) - 512 * (1000 - 10) - (1000 - 10));
  EXPECT_EQ(layer_count(*network), 18u);
  EXPECT_EQ(network->forward(varied_tensor({1, 3, 32, 32}, 1), {}).shape(), (Shape{1, 10}));
}

// The published counts are those of torchvision's resnet50 (ImageNet) and of the usual variant for
// CIFAR-10.
TEST(Resnet, FiftyLayersMatchPublishedParameters) {
  auto network = make_resnet50();
  EXPECT_EQ(parameter_count(*network), 23520842u);
  EXPECT_EQ(layer_count(*network), 50u);
  auto for_large = make_resnet({.channels = {64, 128, 256, 512},
                                .stage_blocks = {3, 4, 6, 3},
                                .classes = 1000,
                                .has_bottlenecks = true,
                                .has_large_images = true});
  EXPECT_EQ(parameter_count(*for_large), 25557032u);
  auto small = make_resnet({.channels = {4, 6},
                            .stage_blocks = {1, 2},
                            .has_bottlenecks = true,
                            .has_large_images = true});
  EXPECT_EQ(small->forward(varied_tensor({2, 3, 33, 20}, 1), {}).shape(), (Shape{2, 10}));
}

TEST(Resnet, TakesImagesOfAnySize) {
  auto network = make_resnet({.in_channels = 1, .channels = {4, 6}, .blocks = 1, .classes = 7});
  for (const std::size_t side : {9, 12, 1})
    EXPECT_EQ(network->forward(varied_tensor({3, 1, side, side + 2}, 1), {}).shape(),
              (Shape{3, 7}));
}

TEST(Resnet, GradientsAgreeWithCentralDifferences) {
  auto network =
      make_resnet({.in_channels = 2, .channels = {3, 4}, .blocks = 1, .classes = 4, .seed = 2});
  const Tensor input = varied_tensor({6, 2, 6, 7}, 1);
  const std::vector<std::int32_t> labels{0, 3, 1, 2, 2, 0};
  const auto loss = [&] {
    return cross_entropy_loss(network->forward(input.clone(), {.training = true}), labels, 6);
  };
  (void)network->backward(loss().gradient, {});
  std::vector<std::vector<float>> gradients;
  for (const Parameter* parameter : network->parameters())
    gradients.push_back(values_of(parameter->gradient));
  std::size_t which = 0;
  for (Parameter* parameter : network->parameters()) {
    const auto& gradient = gradients[which++];
    const auto values = parameter->value.values();
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 7) {
      constexpr float kStep = 2e-4f;  // small: ReLU has kinks
      EXPECT_NEAR(central_difference([&] { return loss().value; }, values[i], kStep), gradient[i],
                  5e-3)
          << parameter->name << " at " << i;
    }
  }
}

TEST(Resnet, LearnsTheSameBitsTwice) {
  const auto train = [](std::uint64_t seed) {
    auto network = make_resnet({.channels = {6, 8}, .blocks = 1, .classes = 3, .seed = seed});
    Sgd sgd(network->parameters(), {.learning_rate = 0.05f, .momentum = 0.9f});
    const Tensor input = varied_tensor({12, 3, 9, 9}, 4);
    const std::vector<std::int32_t> labels{0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0};
    std::vector<double> losses;
    for (int step = 0; step < 40; ++step) {
      auto loss =
          cross_entropy_loss(network->forward(input.clone(), {.training = true}), labels, 12);
      losses.push_back(loss.value);
      (void)network->backward(std::move(loss.gradient), {});
      sgd.step();
    }
    return losses;
  };
  const auto losses = train(1);
  EXPECT_LT(losses.back(), 0.2 * losses.front());
  EXPECT_EQ(losses, train(1));
  EXPECT_NE(losses, train(2));
}

TEST(Resnet, RefusesNoStagesAndNoBlocks) {
  EXPECT_EQ(message_of<InvalidArgument>([] { (void)make_resnet({.channels = {}}); }),
            "make_resnet: 0 stages, 3 blocks per stage; each must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] { (void)make_resnet({.blocks = 0}); }),
            "make_resnet: 3 stages, 0 blocks per stage; each must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              (void)make_resnet({.stage_blocks = {1, 0, 2}});
            }),
            "make_resnet: 3 stages, 1, 0, 2 blocks per stage; each must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              (void)make_resnet({.stage_blocks = {1, 2}});
            }),
            "make_resnet: 3 stages, but stage_blocks has 2; give one for each stage");
}

}  // namespace
}  // namespace horo::ops
