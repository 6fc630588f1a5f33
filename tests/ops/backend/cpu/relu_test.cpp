#include <limits>

#include "ops/backend/cpu/elementwise.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {
namespace {

TEST(ReluKernel, ZeroesNegativesAndTheirGradients) {
  for (const std::size_t count : {1, 3, 17, 64, 1001}) {
    const auto input = varied_values(count, 1);
    const auto gradient = varied_values(count, 2);
    auto output = input;
    auto input_gradient = gradient;
    cpu::relu_forward(output);
    cpu::relu_backward(input_gradient, output);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(output[i], input[i] > 0 ? input[i] : 0.0f) << i;
      ASSERT_EQ(input_gradient[i], input[i] > 0 ? gradient[i] : 0.0f) << i;
    }
  }
}

TEST(ReluKernel, EdgeValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0f, -0.0f, infinity, -infinity, std::nanf("")};
  cpu::relu_forward(values);
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_FALSE(std::signbit(values[1]));
  EXPECT_EQ(values[2], infinity);
  EXPECT_EQ(values[3], 0.0f);
  EXPECT_TRUE(std::isnan(values[4])) << "a NaN must not be hidden";
  std::vector<float> gradient(values.size(), 2.0f);
  cpu::relu_backward(gradient, values);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 2, 0, 2}));
}

}  // namespace
}  // namespace horo::ops
