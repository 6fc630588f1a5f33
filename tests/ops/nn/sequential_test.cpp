#include "ops/nn/sequential.h"

#include "horo/base/error.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/relu.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

std::vector<std::string> names(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> result;
  for (const Parameter* parameter : parameters) result.push_back(parameter->name);
  return result;
}

TEST(Sequential, NamesParametersAndBuffersInForwardOrder) {
  Sequential block;
  block.add(Linear({.in_features = 3, .out_features = 4, .bias = false}))
      .add(BatchNorm({.channels = 4}));
  Sequential network;
  network.add("flatten", Flatten()).add("block", std::move(block)).add("relu", Relu());
  network.add("out", Linear({.in_features = 4, .out_features = 2}));
  EXPECT_EQ(network.size(), 4u);
  EXPECT_EQ(network.name_of(1), "block");
  EXPECT_EQ(names(network.parameters()),
            (std::vector<std::string>{"block.0.weight", "block.1.weight", "block.1.bias",
                                      "out.weight", "out.bias"}));
  EXPECT_EQ(names(network.buffers()),
            (std::vector<std::string>{"block.1.running_mean", "block.1.running_variance"}));
}

TEST(Sequential, ReportsGradientsFromLastLayerToFirst) {
  Sequential network;
  network.add("a", Linear({.in_features = 3, .out_features = 4})).add("relu", Relu());
  network.add("b", Linear({.in_features = 4, .out_features = 2}));
  (void)network.forward(varied_tensor({5, 3}, 1), {.training = true});
  std::vector<std::string> ready;
  const Tensor input_gradient =
      network.backward(varied_tensor({5, 2}, 2),
                       [&](const Parameter& parameter) { ready.push_back(parameter.name); });
  EXPECT_EQ(ready, (std::vector<std::string>{"b.weight", "b.bias", "a.weight", "a.bias"}));
  EXPECT_EQ(input_gradient.shape(), (Shape{5, 3}));
}

TEST(Sequential, StopsAtALayerWithoutInputGradient) {
  Sequential network;
  network.add(Flatten()).add(
      Linear({.in_features = 6, .out_features = 2, .input_gradient = false}));
  (void)network.forward(varied_tensor({5, 2, 3}, 1), {.training = true});
  EXPECT_EQ(network.backward(varied_tensor({5, 2}, 2), {}).count(), 0u);

  Sequential wrong;
  wrong.add("early", Linear({.in_features = 6, .out_features = 6}));
  wrong.add("late", Linear({.in_features = 6, .out_features = 2, .input_gradient = false}));
  (void)wrong.forward(varied_tensor({5, 6}, 1), {.training = true});
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)wrong.backward(varied_tensor({5, 2}, 2), {});
            }),
            "layer 'late' was built without an input gradient, but layer 'early' before it needs "
            "one");
}

TEST(Sequential, RefusesBadNames) {
  Sequential network;
  network.add("a", Relu());
  EXPECT_EQ(message_of<InvalidArgument>([&] { network.add("a", Relu()); }),
            "Sequential: there is already a layer 'a'");
  EXPECT_EQ(message_of<InvalidArgument>([&] { network.add("", Relu()); }),
            "Sequential: a layer needs a name that is not empty");
  EXPECT_EQ(network.size(), 1u);
}

TEST(Sequential, ReturnsTheInputWithoutLayers) {
  Sequential network;
  const Tensor input = varied_tensor({2, 3}, 1);
  EXPECT_EQ(values_of(network.forward(input.clone(), {})), values_of(input));
  EXPECT_TRUE(network.parameters().empty());
}

}  // namespace
}  // namespace horo::ops
