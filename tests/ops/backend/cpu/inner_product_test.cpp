#include "ops/backend/cpu/inner_product.h"

#include <ostream>

#include "tests/ops/support/test_values.h"
#include "tests/support/reference_kernels/inner_product.h"

namespace horo::ops {

void PrintTo(const InnerProductShape& shape, std::ostream* out) {
  *out << "batch " << shape.batch << ", " << shape.in_features << " to " << shape.out_features
       << (shape.has_bias ? ", bias" : "");
}

namespace {

class InnerProduct : public testing::TestWithParam<InnerProductShape> {};

TEST_P(InnerProduct, MatchesReference) {
  const InnerProductShape shape = GetParam();
  const auto input = varied_values(shape.batch * shape.in_features, 1);
  const auto weights = varied_values(shape.out_features * shape.in_features, 2);
  const auto bias = varied_values(shape.out_features, 3);
  const auto output_gradient = varied_values(shape.batch * shape.out_features, 4);

  cpu::InnerProductKernel kernel(shape);
  std::vector<float> output(output_gradient.size());
  kernel.forward(input.data(), weights.data(), bias.data(), output.data());
  expect_close(
      output,
      reference::inner_product(shape, in_double(input), in_double(weights), in_double(bias)), 1e-5);

  const auto expected = reference::inner_product_gradients(
      shape, in_double(input), in_double(weights), in_double(output_gradient));
  std::vector<float> input_gradient(input.size());
  std::vector<float> weights_gradient(weights.size());
  std::vector<float> bias_gradient(bias.size());
  kernel.backward_weights(input.data(), output_gradient.data(), weights_gradient.data(),
                          bias_gradient.data());
  kernel.backward_data(weights.data(), output_gradient.data(), input_gradient.data());
  expect_close(input_gradient, expected.input, 1e-5);
  expect_close(weights_gradient, expected.weights, 1e-5);
  if (shape.has_bias) {
    expect_close(bias_gradient, expected.bias, 1e-5);
  } else {
    EXPECT_EQ(bias_gradient, std::vector<float>(bias.size())) << "written without a bias";
  }
}

TEST_P(InnerProduct, SameBitsTwice) {
  const InnerProductShape shape = GetParam();
  const auto input = varied_values(shape.batch * shape.in_features, 1);
  const auto weights = varied_values(shape.out_features * shape.in_features, 2);
  const auto output_gradient = varied_values(shape.batch * shape.out_features, 4);
  const auto run = [&] {
    cpu::InnerProductKernel kernel(shape);
    std::vector<float> output(output_gradient.size());
    std::vector<float> weights_gradient(weights.size());
    std::vector<float> bias_gradient(shape.out_features);
    kernel.forward(input.data(), weights.data(), bias_gradient.data(), output.data());
    kernel.backward_weights(input.data(), output_gradient.data(), weights_gradient.data(),
                            bias_gradient.data());
    return std::vector{output, weights_gradient, bias_gradient};
  };
  EXPECT_EQ(run(), run());
}

INSTANTIATE_TEST_SUITE_P(Shapes, InnerProduct,
                         testing::Values(InnerProductShape{1, 1, 1},
                                         InnerProductShape{1, 7, 3, false},
                                         InnerProductShape{3, 17, 5}, InnerProductShape{5, 1, 9},
                                         InnerProductShape{17, 33, 16, false},
                                         InnerProductShape{17, 100, 10},
                                         InnerProductShape{5, 512, 128}));

}  // namespace
}  // namespace horo::ops
