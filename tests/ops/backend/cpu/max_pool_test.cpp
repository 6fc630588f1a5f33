#include "tests/support/reference_kernels/max_pool.h"

#include <ostream>

#include "ops/backend/cpu/pooling.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {

void PrintTo(const PoolShape& shape, std::ostream* out) {
  *out << shape.input.batch << "x" << shape.input.channels << "x" << shape.input.height << "x"
       << shape.input.width << ", kernel " << shape.window.size << ", stride "
       << shape.window.stride << ", padding " << shape.window.padding;
}

namespace {

class MaxPool : public testing::TestWithParam<PoolShape> {};

TEST_P(MaxPool, MatchesReference) {
  const PoolShape shape = GetParam();
  const auto input = varied_values(shape.input.count(), 1);
  const auto output_gradient = varied_values(shape.output().count(), 2);
  const auto expected = reference::max_pool(shape, in_double(input));
  cpu::PoolKernel kernel(cpu::PoolKernel::Kind::kLargest, shape);

  std::vector<float> output(shape.output().count());
  kernel.forward_inference(input.data(), output.data());
  expect_close(output, expected, 0);
  std::ranges::fill(output, 0.0f);
  kernel.forward_training(input.data(), output.data());
  expect_close(output, expected, 0);

  std::vector<float> input_gradient(input.size());
  kernel.backward(output_gradient.data(), input_gradient.data());
  expect_close(input_gradient,
               reference::max_pool_gradient(shape, in_double(input), in_double(output_gradient)),
               1e-6);
}

TEST_P(MaxPool, InferenceBetweenForwardAndBackwardChangesNothing) {
  const PoolShape shape = GetParam();
  const auto input = varied_values(shape.input.count(), 1);
  const auto other = varied_values(shape.input.count(), 5);
  const auto output_gradient = varied_values(shape.output().count(), 2);
  const auto gradient = [&](bool with_inference) {
    cpu::PoolKernel kernel(cpu::PoolKernel::Kind::kLargest, shape);
    std::vector<float> output(shape.output().count());
    std::vector<float> result(input.size());
    kernel.forward_training(input.data(), output.data());
    if (with_inference) kernel.forward_inference(other.data(), output.data());
    kernel.backward(output_gradient.data(), result.data());
    return result;
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MaxPool,
    testing::Values(PoolShape{{1, 1, 4, 4}, {2, 2, 0}}, PoolShape{{3, 3, 7, 9}, {2, 2, 0}},
                    PoolShape{{5, 8, 9, 7}, {3, 2, 1}}, PoolShape{{17, 16, 12, 12}, {2, 2, 0}},
                    PoolShape{{5, 16, 24, 24}, {2, 2, 0}}, PoolShape{{2, 32, 8, 8}, {2, 2, 0}},
                    PoolShape{{3, 20, 11, 5}, {3, 1, 0}}, PoolShape{{1, 33, 5, 5}, {5, 5, 0}}));

}  // namespace
}  // namespace horo::ops
