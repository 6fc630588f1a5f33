// Each error is one line that names the layer, the actual and the expected value.
#include "horo/base/error.h"
#include "ops/nn/layers/avg_pool2d.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/residual_block.h"
#include "ops/nn/sequential.h"
#include "tests/ops/support/losses.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

std::string forward_error(Layer& layer, const Shape& shape) {
  return message_of<InvalidArgument>(
      [&] { (void)layer.forward(Tensor::zeros(shape), {.training = true}); });
}

TEST(LayerErrors, InputShapes) {
  Linear linear({.in_features = 784, .out_features = 10});
  EXPECT_EQ(forward_error(linear, {128, 1, 28, 28}),
            "Linear: input has shape [128, 1, 28, 28]; expected [batch, ..., 784]");
  EXPECT_EQ(forward_error(linear, {0, 784}),
            "Linear: input has shape [0, 784]; expected [batch, ..., 784]");
  Conv2d convolution({.in_channels = 3, .out_channels = 8, .kernel = 5});
  EXPECT_EQ(forward_error(convolution, {4, 1, 28, 28}),
            "Conv2d: input has shape [4, 1, 28, 28]; expected [batch, 3, height, width] of at "
            "least 5 x 5 pixels with padding");
  EXPECT_NE(forward_error(convolution, {4, 3, 28, 4}), "");
  MaxPool2d pool;
  EXPECT_EQ(forward_error(pool, {4, 3, 1, 8}),
            "MaxPool2d: input has shape [4, 3, 1, 8]; expected [batch, channels, height, width] "
            "of at least 2 x 2 pixels with padding");
  BatchNorm norm({.channels = 6});
  EXPECT_EQ(forward_error(norm, {4, 5}),
            "BatchNorm: input has shape [4, 5]; expected [batch, 6] or [batch, 6, height, width]");
  GlobalAveragePool average;
  EXPECT_EQ(forward_error(average, {4, 6}),
            "GlobalAveragePool: input has shape [4, 6]; expected [batch, channels, height, width]");
  ResidualBlock block({.in_channels = 4, .out_channels = 4});
  EXPECT_EQ(forward_error(block, {2, 3, 8, 8}),
            "layer 'conv1': Conv2d: input has shape [2, 3, 8, 8]; expected [batch, 4, height, "
            "width] of at least 3 x 3 pixels with padding");
  Flatten flatten;
  EXPECT_EQ(forward_error(flatten, {}), "Flatten: input has shape []; expected [batch, ...]");
}

TEST(LayerErrors, SequentialNamesTheLayer) {
  Sequential inner;
  inner.add("fc", Linear({.in_features = 4, .out_features = 2}));
  Sequential network;
  network.add("head", std::move(inner));
  EXPECT_EQ(forward_error(network, {3, 5}),
            "layer 'head': layer 'fc': Linear: input has shape [3, 5]; expected [batch, ..., 4]");
}

TEST(LayerErrors, Backward) {
  Linear linear({.in_features = 4, .out_features = 2});
  const auto backward = [&](const Shape& shape) {
    return message_of<InvalidArgument>([&] { (void)linear.backward(Tensor::zeros(shape), {}); });
  };
  EXPECT_EQ(backward({3, 2}), "Linear: backward() requires a training forward() before it");
  (void)linear.forward(varied_tensor({3, 4}, 1), {});
  EXPECT_EQ(backward({3, 2}), "Linear: backward() requires a training forward() before it");
  (void)linear.forward(varied_tensor({3, 4}, 1), {.training = true});
  EXPECT_EQ(backward({2, 3}), "Linear: output gradient has shape [2, 3]; expected [3, 2]");
  Relu relu;
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)relu.backward(Tensor::zeros({1}), {}); }),
            "Relu: backward() requires a training forward() before it");
}

TEST(LayerErrors, Options) {
  EXPECT_EQ(message_of<InvalidArgument>([] { Linear({.in_features = 3}); }),
            "Linear: 3 input features, 0 output features; each must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>(
                [] { Conv2d({.in_channels = 1, .out_channels = 2, .stride = 0}); }),
            "Conv2d: 1 input channels, 2 output channels, kernel 3, stride 0; each must be at "
            "least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] { MaxPool2d({.kernel = 3, .padding = 2}); }),
            "MaxPool2d: padding 2 exceeds half of kernel 3");
  EXPECT_EQ(message_of<InvalidArgument>([] { AvgPool2d({.kernel = 0}); }),
            "AvgPool2d: kernel is 0; must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] { BatchNorm(BatchNormOptions{}); }),
            "BatchNorm: channels is 0; must be at least 1");
}

TEST(LayerErrors, CrossEntropy) {
  const std::vector<std::int32_t> labels{1, 0};
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)cross_entropy_loss(Tensor::zeros({3, 4}), labels, 3);
            }),
            "cross-entropy: logits have shape [3, 4]; expected [2, classes] for 2 labels");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)cross_entropy_loss(Tensor::zeros({2, 4}), labels, 0);
            }),
            "loss: normaliser is 0; must be above 0");
}

}  // namespace
}  // namespace horo::ops
