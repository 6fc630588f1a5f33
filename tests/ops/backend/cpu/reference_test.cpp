// Compares the gradients of the reference, which all other kernel tests use, with central
// differences of its forward functions.
#include "tests/ops/support/test_values.h"
#include "tests/support/reference_kernels/batch_norm.h"
#include "tests/support/reference_kernels/convolution.h"
#include "tests/support/reference_kernels/cross_entropy.h"
#include "tests/support/reference_kernels/inner_product.h"
#include "tests/support/reference_kernels/max_pool.h"

namespace horo::ops {
namespace {

using reference::Values;

Values varied(std::size_t count, std::uint32_t seed) {
  return in_double(varied_values(count, seed));
}

TEST(Reference, ConvolutionByHand) {
  // one 3 x 3 image, a 2 x 2 kernel, stride 2, padding 1
  const ConvolutionShape shape{{1, 1, 3, 3}, 1, {2, 2, 1}};
  const Values output =
      reference::convolution(shape, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 10, 100, 1000}, {0.5});
  EXPECT_EQ(output, (Values{1000.5, 3200.5, 7040.5, 9865.5}));
}

TEST(Reference, MaxPoolByHand) {
  const PoolShape shape{{1, 1, 3, 4}, {2, 2, 0}};
  const Values input{1, 2, 8, 4,  //
                     5, 3, 7, 6,  //
                     9, 9, 9, 9};
  EXPECT_EQ(reference::max_pool(shape, input), (Values{5, 8}));
  EXPECT_EQ(reference::max_pool_gradient(shape, input, {0.25, -3}),
            (Values{0, 0, -3, 0, 0.25, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Reference, ConvolutionGradients) {
  for (const auto& shape : {ConvolutionShape{{2, 2, 5, 4}, 3, {3, 1, 1}},
                            ConvolutionShape{{1, 3, 6, 5}, 2, {2, 2, 0}}}) {
    const Values input = varied(shape.input.count(), 1);
    const Values weights = varied(shape.weight_count(), 2);
    const Values bias = varied(shape.out_channels, 3);
    const Values weighting = varied(shape.output().count(), 4);
    const auto gradients = reference::convolution_gradients(shape, input, weights, weighting);
    expect_numerical_gradient(
        [&](const Values& x) { return reference::convolution(shape, x, weights, bias); }, input,
        weighting, gradients.input);
    expect_numerical_gradient(
        [&](const Values& w) { return reference::convolution(shape, input, w, bias); }, weights,
        weighting, gradients.weights);
    expect_numerical_gradient(
        [&](const Values& b) { return reference::convolution(shape, input, weights, b); }, bias,
        weighting, gradients.bias);
  }
}

TEST(Reference, InnerProductGradients) {
  const InnerProductShape shape{3, 5, 4};
  const Values input = varied(15, 1);
  const Values weights = varied(20, 2);
  const Values bias = varied(4, 3);
  const Values weighting = varied(12, 4);
  const auto gradients = reference::inner_product_gradients(shape, input, weights, weighting);
  expect_numerical_gradient(
      [&](const Values& x) { return reference::inner_product(shape, x, weights, bias); }, input,
      weighting, gradients.input);
  expect_numerical_gradient(
      [&](const Values& w) { return reference::inner_product(shape, input, w, bias); }, weights,
      weighting, gradients.weights);
  expect_numerical_gradient(
      [&](const Values& b) { return reference::inner_product(shape, input, weights, b); }, bias,
      weighting, gradients.bias);
}

TEST(Reference, MaxPoolGradient) {
  const PoolShape shape{{2, 3, 5, 4}, {3, 2, 1}};
  const Values input = varied(shape.input.count(), 1);
  const Values weighting = varied(shape.output().count(), 2);
  expect_numerical_gradient([&](const Values& x) { return reference::max_pool(shape, x); }, input,
                            weighting, reference::max_pool_gradient(shape, input, weighting));
}

TEST(Reference, BatchNormGradients) {
  const ImageBatch shape{3, 2, 2, 3};
  const Values input = varied(shape.count(), 1);
  const Values scale = varied(2, 2);
  const Values shift = varied(2, 3);
  const Values weighting = varied(shape.count(), 4);
  constexpr double kEpsilon = 1e-3;
  const auto forward = [&](const Values& x, const Values& a, const Values& b) {
    return reference::batch_norm(shape, x, a, b, reference::channel_statistics(shape, x), kEpsilon);
  };
  const auto gradients = reference::batch_norm_gradients(shape, input, scale, weighting, kEpsilon);
  expect_numerical_gradient([&](const Values& x) { return forward(x, scale, shift); }, input,
                            weighting, gradients.input);
  expect_numerical_gradient([&](const Values& a) { return forward(input, a, shift); }, scale,
                            weighting, gradients.scale);
  expect_numerical_gradient([&](const Values& b) { return forward(input, scale, b); }, shift,
                            weighting, gradients.shift);
}

TEST(Reference, CrossEntropyGradient) {
  const std::vector<std::int32_t> labels{2, 0, 1};
  const Values logits = varied(12, 1);
  expect_numerical_gradient(
      [&](const Values& x) { return Values{reference::cross_entropy(x, labels, 4, 2.5)}; }, logits,
      {1.0}, reference::cross_entropy_gradient(logits, labels, 4, 2.5));
}

}  // namespace
}  // namespace horo::ops
