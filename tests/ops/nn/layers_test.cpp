// Every layer through the Layer interface: its results against the reference, what it keeps between
// forward and backward, and when it reports its gradients.
#include "ops/nn/layers/avg_pool2d.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"
#include "tests/ops/support/passes.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/reference_kernels/convolution.h"
#include "tests/support/reference_kernels/gelu.h"
#include "tests/support/reference_kernels/inner_product.h"
#include "tests/support/reference_kernels/max_pool.h"

namespace horo::ops {
namespace {

TEST(Linear, MatchesReferenceForAlternatingBatchSizes) {
  Linear layer({.in_features = 7, .out_features = 5});
  vary_parameters(layer);
  Parameter& weight = *layer.parameters()[0];
  Parameter& bias = *layer.parameters()[1];
  for (const std::size_t batch : {5, 1, 17, 5, 3}) {
    const InnerProductShape shape{batch, 7, 5};
    const auto seed = static_cast<std::uint32_t>(batch);
    const Tensor input = varied_tensor({batch, 7}, seed);
    const Tensor output_gradient = varied_tensor({batch, 5}, seed + 50);
    const auto x = in_double(input.values());
    const auto w = in_double(weight.value.values());
    const Tensor output = layer.forward(input.clone(), kTraining);
    EXPECT_EQ(output.shape(), (Shape{batch, 5}));
    expect_close(output.values(),
                 reference::inner_product(shape, x, w, in_double(bias.value.values())), 1e-5);
    const auto expected =
        reference::inner_product_gradients(shape, x, w, in_double(output_gradient.values()));
    const Tensor input_gradient = layer.backward(output_gradient.clone(), {});
    expect_close(input_gradient.values(), expected.input, 1e-5);
    expect_close(weight.gradient.values(), expected.weights, 1e-5);
    expect_close(bias.gradient.values(), expected.bias, 1e-5);
  }
}

TEST(Conv2d, MatchesReferenceWithAndWithoutBias) {
  for (const bool has_bias : {true, false}) {
    Conv2d layer({.in_channels = 3,
                  .out_channels = 8,
                  .kernel = 3,
                  .stride = 2,
                  .padding = 1,
                  .bias = has_bias});
    vary_parameters(layer);
    const ConvolutionShape shape{{5, 3, 9, 7}, 8, {3, 2, 1}, has_bias};
    Parameter& weight = *layer.parameters()[0];
    ASSERT_EQ(layer.parameters().size(), has_bias ? 2u : 1u);
    const auto b =
        has_bias ? in_double(layer.parameters()[1]->value.values()) : reference::Values();
    const Tensor input = varied_tensor({5, 3, 9, 7}, 1);
    const Tensor output_gradient = varied_tensor({5, 8, 5, 4}, 2);
    const auto x = in_double(input.values());
    const auto w = in_double(weight.value.values());
    const Tensor output = layer.forward(input.clone(), kTraining);
    EXPECT_EQ(output.shape(), (Shape{5, 8, 5, 4}));
    expect_close(output.values(), reference::convolution(shape, x, w, b), 1e-5);
    const auto expected =
        reference::convolution_gradients(shape, x, w, in_double(output_gradient.values()));
    expect_close(layer.backward(output_gradient.clone(), {}).values(), expected.input, 1e-5);
    expect_close(weight.gradient.values(), expected.weights, 1e-4);
    if (has_bias) expect_close(layer.parameters()[1]->gradient.values(), expected.bias, 1e-4);
  }
}

TEST(Gelu, MatchesReferenceAlsoFarOut) {
  Gelu layer;
  auto values = varied_values(55, 1);
  for (float& value : values) value *= 4;
  const float far[] = {20, -20, 1e20f, -1e20f, 3e38f, -3e38f};
  std::ranges::copy(far, values.begin() + 9);
  const Tensor input = tensor_of({5, 11}, values);
  const Tensor output_gradient = varied_tensor({5, 11}, 2);
  const auto x = in_double(input.values()), dy = in_double(output_gradient.values());
  expect_close(layer.forward(input.clone(), kInference).values(), reference::gelu(x), 1e-6);
  expect_close(layer.forward(input.clone(), kTraining).values(), reference::gelu(x), 1e-6);
  expect_close(layer.backward(output_gradient.clone(), {}).values(),
               reference::gelu_gradient(x, dy), 1e-5);
}

TEST(MaxPool2d, MatchesReference) {
  const PoolShape shape{{3, 4, 7, 9}, {3, 2, 1}};
  MaxPool2d layer({.kernel = 3, .stride = 2, .padding = 1});
  const Tensor input = varied_tensor({3, 4, 7, 9}, 1);
  const Tensor output = layer.forward(input.clone(), kTraining);
  EXPECT_EQ(output.shape(), (Shape{3, 4, 4, 5}));
  expect_close(output.values(), reference::max_pool(shape, in_double(input.values())), 0);
  const Tensor output_gradient = varied_tensor(output.shape(), 2);
  expect_close(layer.backward(output_gradient.clone(), {}).values(),
               reference::max_pool_gradient(shape, in_double(input.values()),
                                            in_double(output_gradient.values())),
               1e-6);
}

TEST(MaxPool2d, StrideDefaultsToTheKernel) {
  MaxPool2d layer({.kernel = 3});
  EXPECT_EQ(layer.forward(varied_tensor({1, 2, 9, 10}, 1), kInference).shape(),
            (Shape{1, 2, 3, 3}));
}

TEST(AvgPool2d, AveragesWindowsWithoutThePadding) {
  AvgPool2d layer({.kernel = 3, .stride = 2, .padding = 1});
  const Tensor input = varied_tensor({2, 3, 5, 6}, 1);
  const Tensor output = layer.forward(input.clone(), kTraining);
  ASSERT_EQ(output.shape(), (Shape{2, 3, 3, 3}));
  const Tensor output_gradient = varied_tensor(output.shape(), 2);
  reference::Values expected(output.count()), gradient(input.count());
  for (std::size_t plane = 0; plane < 6; ++plane)
    for (std::size_t at = 0; at < 9; ++at) {
      std::vector<std::size_t> pixels;
      for (std::size_t y = 2 * (at / 3); y < 2 * (at / 3) + 3; ++y)
        for (std::size_t x = 2 * (at % 3); x < 2 * (at % 3) + 3; ++x)  // from the padded corner
          if (y >= 1 && y < 6 && x >= 1 && x < 7)
            pixels.push_back(30 * plane + 6 * (y - 1) + x - 1);
      const auto count = static_cast<double>(pixels.size());
      for (const std::size_t pixel : pixels) {
        expected[9 * plane + at] += static_cast<double>(input.values()[pixel]) / count;
        gradient[pixel] += static_cast<double>(output_gradient.values()[9 * plane + at]) / count;
      }
    }
  expect_close(output.values(), expected, 1e-6);
  expect_close(layer.backward(output_gradient.clone(), {}).values(), gradient, 1e-6);
}

TEST(GlobalAveragePool, AveragesPlanesAndSharesGradientsOut) {
  GlobalAveragePool layer;
  const Tensor input = varied_tensor({3, 5, 7, 4}, 1);
  const Tensor output = layer.forward(input.clone(), kTraining);
  ASSERT_EQ(output.shape(), (Shape{3, 5}));
  const Tensor output_gradient = varied_tensor({3, 5}, 2);
  (void)layer.forward(varied_tensor({2, 5, 1, 1}, 3), kInference);  // changes nothing
  const Tensor input_gradient = layer.backward(output_gradient.clone(), {});
  ASSERT_EQ(input_gradient.shape(), input.shape());
  for (std::size_t plane = 0; plane < 15; ++plane) {
    const auto values = in_double(input.values().subspan(28 * plane, 28));
    EXPECT_NEAR(output.values()[plane], std::reduce(values.begin(), values.end()) / 28, 1e-6);
    for (std::size_t i = 0; i < 28; ++i)
      EXPECT_FLOAT_EQ(input_gradient.values()[28 * plane + i],
                      output_gradient.values()[plane] / 28);
  }
}

TEST(Flatten, KeepsTheValuesAndRestoresTheShape) {
  Flatten layer;
  const Tensor input = varied_tensor({3, 2, 4, 5}, 1);
  Tensor flat = layer.forward(input.clone(), kTraining);
  EXPECT_EQ(flat.shape(), (Shape{3, 40}));
  EXPECT_EQ(values_of(flat), values_of(input));
  const Tensor back = layer.backward(std::move(flat), {});
  EXPECT_EQ(back.shape(), input.shape());
  EXPECT_EQ(values_of(back), values_of(input));
}

TEST(Relu, InferenceBetweenForwardAndBackwardChangesNothing) {
  Relu layer;
  (void)layer.forward(tensor_of({1, 3}, {1.5f, -2.0f, 0.25f}), kTraining);
  const Tensor other = layer.forward(tensor_of({2, 1}, {-1.0f, 3.0f}), kInference);
  EXPECT_EQ(values_of(other), (std::vector<float>{0.0f, 3.0f}));
  const Tensor gradient = layer.backward(tensor_of({1, 3}, {10, 20, 30}), {});
  EXPECT_EQ(values_of(gradient), (std::vector<float>{10, 0, 30}));
}

TEST(Layers, ReportEachGradientOnceItIsFinal) {
  Conv2d layer({.in_channels = 2, .out_channels = 3, .kernel = 3});
  const Tensor input = varied_tensor({2, 2, 5, 5}, 1);
  std::vector<std::string> names;
  std::vector<std::vector<float>> reported;
  (void)layer.forward(input.clone(), kTraining);
  (void)layer.backward(varied_tensor({2, 3, 3, 3}, 2), [&](const Parameter& parameter) {
    names.push_back(parameter.name);
    reported.push_back(values_of(parameter.gradient));
  });
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(reported[0], values_of(layer.parameters()[0]->gradient));
  EXPECT_EQ(reported[1], values_of(layer.parameters()[1]->gradient));
}

TEST(Layers, ReturnNoInputGradientIfNotRequested) {
  Linear linear({.in_features = 4, .out_features = 3, .input_gradient = false});
  (void)linear.forward(varied_tensor({2, 4}, 1), kTraining);
  EXPECT_EQ(linear.backward(varied_tensor({2, 3}, 2), {}).count(), 0u);
  Conv2d convolution({.in_channels = 1, .out_channels = 2, .input_gradient = false});
  (void)convolution.forward(varied_tensor({2, 1, 4, 4}, 1), kTraining);
  EXPECT_EQ(convolution.backward(varied_tensor({2, 2, 2, 2}, 2), {}).count(), 0u);
}

TEST(Layers, BackwardUsesLatestTrainingForward) {
  // Runs inference with more batch sizes in between than a layer caches kernels for.
  Linear layer({.in_features = 6, .out_features = 2});
  const auto gradients = [&](bool with_inference) {
    (void)layer.forward(varied_tensor({4, 6}, 1), kTraining);
    for (std::size_t batch = 5; with_inference && batch < 25; ++batch) {
      (void)layer.forward(varied_tensor({batch, 6}, 3), kInference);
    }
    (void)layer.backward(varied_tensor({4, 2}, 2), {});
    return values_of(layer.parameters()[0]->gradient);
  };
  EXPECT_EQ(gradients(false), gradients(true));
}

}  // namespace
}  // namespace horo::ops
