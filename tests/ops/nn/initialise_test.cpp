#include "ops/nn/initialise.h"

#include "ops/nn/layers/linear.h"
#include "ops/nn/sequential.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

TEST(Initialise, DependsOnlyOnSeedAndName) {
  const auto weight = [](std::uint64_t seed, bool with_more_layers) {
    Sequential network;
    if (with_more_layers) network.add("before", Linear({.in_features = 9, .out_features = 20}));
    network.add("fc", Linear({.in_features = 20, .out_features = 7}));
    initialise(network, seed);
    return values_of(network[with_more_layers ? 1 : 0].parameters()[0]->value);
  };
  EXPECT_EQ(weight(3, false), weight(3, true));
  EXPECT_NE(weight(3, false), weight(4, false));
  const Parameter one = make_parameter("one", {5, 6});
  const Parameter two = make_parameter("two", {5, 6});
  EXPECT_NE(values_of(one.value), values_of(two.value));
}

TEST(Initialise, IsUniformWithTheVarianceOfTheGain) {
  for (const double gain : {1.0, 2.0}) {
    Parameter parameter = make_parameter("weight", {64, 8, 5, 5});
    initialise(parameter, 17, gain);
    const double bound = gain * std::sqrt(3.0 / 200);
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (const double value : parameter.value.values()) {
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    const auto count = static_cast<double>(parameter.value.count());
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, 0.99 * bound);
    EXPECT_NEAR(sum / count, 0, 0.03 * bound);
    EXPECT_NEAR(squares / count, gain * gain / 200, 0.03 * gain * gain / 200);
  }
}

TEST(Initialise, KeepsParametersOfOneDimension) {
  Parameter parameter = make_parameter("bias", {4});
  EXPECT_EQ(values_of(parameter.value), std::vector<float>(4, 0.0f));
  assign(parameter.value, {1, 2, 3, 4});
  initialise(parameter, 9);
  EXPECT_EQ(values_of(parameter.value), (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace horo::ops
