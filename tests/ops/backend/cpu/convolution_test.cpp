#include "ops/backend/cpu/convolution.h"

#include <optional>
#include <ostream>
#include <thread>

#include "tests/ops/support/test_values.h"
#include "tests/support/reference_kernels/convolution.h"

namespace horo::ops {

void PrintTo(const ConvolutionShape& shape, std::ostream* out) {
  *out << shape.input.batch << "x" << shape.input.channels << "x" << shape.input.height << "x"
       << shape.input.width << " to " << shape.out_channels << " channels, kernel "
       << shape.window.size << ", stride " << shape.window.stride << ", padding "
       << shape.window.padding << (shape.has_bias ? ", bias" : "");
}

namespace {

struct Case {
  ConvolutionShape shape;
  std::vector<float> input = varied_values(shape.input.count(), 1);
  std::vector<float> weights = varied_values(shape.weight_count(), 2);
  std::vector<float> bias = varied_values(shape.out_channels, 3);
  std::vector<float> output_gradient = varied_values(shape.output().count(), 4);
};

class Convolution : public testing::TestWithParam<ConvolutionShape> {};

TEST_P(Convolution, ForwardMatchesReference) {
  const Case at{GetParam()};
  std::vector<float> output(at.shape.output().count());
  cpu::ConvolutionKernel kernel(at.shape);
  kernel.forward(at.input.data(), at.weights.data(), at.bias.data(), output.data());
  expect_close(output,
               reference::convolution(at.shape, in_double(at.input), in_double(at.weights),
                                      in_double(at.bias)),
               1e-5);
}

TEST_P(Convolution, BackwardMatchesReference) {
  const Case at{GetParam()};
  const auto expected = reference::convolution_gradients(
      at.shape, in_double(at.input), in_double(at.weights), in_double(at.output_gradient));
  std::vector<float> input_gradient(at.input.size());
  std::vector<float> weights_gradient(at.weights.size());
  std::vector<float> bias_gradient(at.bias.size());
  cpu::ConvolutionKernel kernel(at.shape);
  kernel.backward_weights(at.input.data(), at.output_gradient.data(), weights_gradient.data(),
                          bias_gradient.data());
  kernel.backward_data(at.weights.data(), at.output_gradient.data(), input_gradient.data());
  expect_close(input_gradient, expected.input, 1e-4);
  expect_close(weights_gradient, expected.weights, 1e-4);
  if (at.shape.has_bias) expect_close(bias_gradient, expected.bias, 1e-4);
}

TEST_P(Convolution, SameBitsTwice) {
  const Case at{GetParam()};
  const auto run = [&] {
    cpu::ConvolutionKernel kernel(at.shape);
    std::vector<float> output(at.shape.output().count());
    std::vector<float> weights_gradient(at.weights.size());
    std::vector<float> bias_gradient(at.bias.size());
    kernel.forward(at.input.data(), at.weights.data(), at.bias.data(), output.data());
    kernel.backward_weights(at.input.data(), at.output_gradient.data(), weights_gradient.data(),
                            bias_gradient.data());
    return std::vector{output, weights_gradient, bias_gradient};
  };
  EXPECT_EQ(run(), run());
}

// The first pass runs on one thread, the second on another, and neither destroys the kernel.
// Scratch memory must belong to none of the threads: LeakSanitizer reports what is left behind.
TEST_P(Convolution, SameBitsOnEveryThread) {
  const Case at{GetParam()};
  std::optional<cpu::ConvolutionKernel> kernel;
  std::vector<std::vector<float>> input_gradients, weights_gradients;
  for (int pass = 0; pass < 2; ++pass) {
    std::jthread([&] {
      if (!kernel) kernel.emplace(at.shape);
      std::vector<float> output(at.shape.output().count());
      kernel->forward(at.input.data(), at.weights.data(), at.bias.data(), output.data());
      std::vector<float> bias_gradient(at.bias.size());
      kernel->backward_weights(at.input.data(), at.output_gradient.data(),
                               weights_gradients.emplace_back(at.weights.size()).data(),
                               bias_gradient.data());
      kernel->backward_data(at.weights.data(), at.output_gradient.data(),
                            input_gradients.emplace_back(at.input.size()).data());
    });
  }
  kernel.reset();
  EXPECT_EQ(input_gradients[0], input_gradients[1]);
  EXPECT_EQ(weights_gradients[0], weights_gradients[1]);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution,
                         testing::Values(ConvolutionShape{{1, 1, 5, 5}, 1, {1, 1, 0}},
                                         ConvolutionShape{{1, 3, 7, 9}, 4, {3, 1, 0}, false},
                                         ConvolutionShape{{3, 1, 28, 28}, 16, {5, 1, 0}},
                                         ConvolutionShape{{5, 3, 11, 13}, 8, {3, 2, 1}},
                                         ConvolutionShape{{17, 8, 9, 7}, 3, {3, 1, 1}},
                                         ConvolutionShape{{5, 16, 12, 12}, 32, {5, 1, 0}},
                                         ConvolutionShape{{3, 16, 12, 12}, 32, {5, 1, 2}, false},
                                         ConvolutionShape{{17, 8, 6, 5}, 8, {2, 2, 0}},
                                         ConvolutionShape{{2, 32, 8, 8}, 20, {3, 2, 1}, false},
                                         ConvolutionShape{{6, 64, 2, 2}, 64, {3, 1, 1}, false}));

}  // namespace
}  // namespace horo::ops
