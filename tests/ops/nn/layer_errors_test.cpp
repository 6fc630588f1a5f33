// Each error is one line that names the layer, the actual and the expected value.
#include "horo/base/error.h"
#include "ops/nn/batch_norm.h"
#include "ops/nn/conv2d.h"
#include "ops/nn/cross_entropy_loss.h"
#include "ops/nn/flatten.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/linear.h"
#include "ops/nn/max_pool2d.h"
#include "ops/nn/relu.h"
#include "ops/nn/residual_block.h"
#include "ops/nn/sequential.h"
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
            "Linear got input [128, 1, 28, 28], wants [batch, 784]");
  EXPECT_EQ(forward_error(linear, {0, 784}), "Linear got input [0, 784], wants [batch, 784]");
  Conv2d convolution({.in_channels = 3, .out_channels = 8, .kernel = 5});
  EXPECT_EQ(forward_error(convolution, {4, 1, 28, 28}),
            "Conv2d got input [4, 1, 28, 28], wants [batch, 3, height, width] of at least 5 x 5 "
            "pixels with padding");
  EXPECT_NE(forward_error(convolution, {4, 3, 28, 4}), "");
  MaxPool2d pool;
  EXPECT_EQ(forward_error(pool, {4, 3, 1, 8}),
            "MaxPool2d got input [4, 3, 1, 8], wants [batch, channels, height, width] of at least "
            "2 x 2 pixels with padding");
  BatchNorm norm({.channels = 6});
  EXPECT_EQ(forward_error(norm, {4, 5}),
            "BatchNorm got input [4, 5], wants [batch, 6] or [batch, 6, height, width]");
  GlobalAveragePool average;
  EXPECT_EQ(forward_error(average, {4, 6}),
            "GlobalAveragePool got input [4, 6], wants [batch, channels, height, width]");
  ResidualBlock block({.in_channels = 4, .out_channels = 4});
  EXPECT_EQ(forward_error(block, {2, 3, 8, 8}),
            "layer 'conv1': Conv2d got input [2, 3, 8, 8], wants [batch, 4, height, width] of at "
            "least 3 x 3 pixels with padding");
  Flatten flatten;
  EXPECT_EQ(forward_error(flatten, {}), "Flatten got input [], wants [batch, ...]");
}

TEST(LayerErrors, SequentialNamesTheLayer) {
  Sequential inner;
  inner.add("fc", Linear({.in_features = 4, .out_features = 2}));
  Sequential network;
  network.add("head", std::move(inner));
  EXPECT_EQ(forward_error(network, {3, 5}),
            "layer 'head': layer 'fc': Linear got input [3, 5], wants [batch, 4]");
}

TEST(LayerErrors, Backward) {
  Linear linear({.in_features = 4, .out_features = 2});
  const auto backward = [&](const Shape& shape) {
    return message_of<InvalidArgument>([&] { (void)linear.backward(Tensor::zeros(shape), {}); });
  };
  EXPECT_EQ(backward({3, 2}), "Linear: backward() without a training forward() before it");
  (void)linear.forward(varied_tensor({3, 4}, 1), {});
  EXPECT_EQ(backward({3, 2}), "Linear: backward() without a training forward() before it");
  (void)linear.forward(varied_tensor({3, 4}, 1), {.training = true});
  EXPECT_EQ(backward({2, 3}), "Linear got an output gradient [2, 3], wants [3, 2]");
  Relu relu;
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)relu.backward(Tensor::zeros({1}), {}); }),
            "Relu: backward() without a training forward() before it");
}

TEST(LayerErrors, Options) {
  EXPECT_EQ(message_of<InvalidArgument>([] { Linear({.in_features = 3}); }),
            "Linear: got 3 input and 0 output features, wants at least one of each");
  EXPECT_EQ(message_of<InvalidArgument>(
                [] { Conv2d({.in_channels = 1, .out_channels = 2, .stride = 0}); }),
            "Conv2d: got 1 input channels, 2 output channels, kernel 3, stride 0; wants at least 1 "
            "of each");
  EXPECT_EQ(message_of<InvalidArgument>([] { MaxPool2d({.kernel = 3, .padding = 2}); }),
            "MaxPool2d: got padding 2 with kernel 3, wants at most half of it");
  EXPECT_EQ(message_of<InvalidArgument>([] { BatchNorm(BatchNormOptions{}); }),
            "BatchNorm: got 0 channels, wants at least 1");
}

TEST(LayerErrors, CrossEntropy) {
  const std::vector<std::int32_t> labels{1, 0};
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)cross_entropy_loss(Tensor::zeros({3, 4}), labels, 3);
            }),
            "cross-entropy got logits [3, 4] for 2 labels, wants [2, classes]");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)cross_entropy_loss(Tensor::zeros({2, 4}), labels, 0);
            }),
            "cross-entropy got normaliser 0, wants more than 0");
}

}  // namespace
}  // namespace horo::ops
