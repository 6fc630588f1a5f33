#include "ops/backend/device/norm/layer_norm.h"

#include "tests/ops/backend/device/device_values.h"
#include "tests/support/reference_kernels/layer_norm.h"

namespace horo::ops::device_kernels {
namespace {

constexpr float kEpsilon = 1e-5f;

template <typename T>
constexpr double kLayerNormTolerance = std::is_same_v<T, float>     ? 1e-5
                                       : std::is_same_v<T, Float16> ? 2e-3
                                                                    : 2e-2;

struct Inputs {
  NormShape shape;
  std::vector<float> x, dy, gamma, beta;

  template <typename T>
  static Inputs of(const NormShape& shape) {
    const std::size_t count = shape.rows * shape.columns;
    Inputs inputs{shape, rounded<T>(varied_values(count, 1)), rounded<T>(varied_values(count, 2)),
                  varied_values(shape.columns, 3), varied_values(shape.columns, 4)};
    for (float& x : inputs.x) x += 3;
    inputs.x = rounded<T>(inputs.x);
    return inputs;
  }
};

template <typename T>
void check(const NormShape& shape, std::size_t skip) {
  SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + ", skip " +
               std::to_string(skip));
  TestDevice test;
  const Inputs inputs = Inputs::of<T>(shape);
  const std::size_t count = shape.rows * shape.columns;
  DeviceValues<T> x(test.device, inputs.x, skip), dy(test.device, inputs.dy, skip);
  DeviceValues<T> y(test.device, std::vector<float>(count), skip);
  DeviceValues<float> gamma(test.device, inputs.gamma, skip), beta(test.device, inputs.beta, skip);
  DeviceValues<float> dgamma(test.device, std::vector<float>(shape.columns, 9.0f), skip);
  DeviceValues<float> dbeta(test.device, std::vector<float>(shape.columns, 9.0f), skip);
  DeviceValues<float> mean(test.device, std::vector<float>(shape.rows)),
      inverse(test.device, std::vector<float>(shape.rows)),
      sums(test.device, std::vector<float>(count_norm_sums(shape)));
  const NormStatistics statistics{mean.data(), inverse.data()};
  layer_norm_forward(*test.stream, y.data(), x.data(), gamma.data(), beta.data(), shape, kEpsilon,
                     statistics);
  layer_norm_parameters_backward(*test.stream, dgamma.data(), dbeta.data(), dy.data(), x.data(),
                                 shape, statistics, sums.data());
  layer_norm_backward(*test.stream, dy.data(), dy.data(), x.data(), gamma.data(), shape,
                      statistics);
  test.stream->synchronize();
  const auto expected_y = reference::layer_norm(in_double(inputs.x), in_double(inputs.gamma),
                                                in_double(inputs.beta), kEpsilon);
  const auto expected = reference::layer_norm_gradients(
      in_double(inputs.x), in_double(inputs.gamma), in_double(inputs.dy), kEpsilon);
  expect_close(y.values(), expected_y, kLayerNormTolerance<T>);
  expect_close(dy.values(), expected.x, kLayerNormTolerance<T>);
  expect_close(dgamma.values(), expected.gamma, 1e-4);
  expect_close(dbeta.values(), expected.beta, 1e-4);
  for (auto* values : {&x, &dy, &y}) values->expect_guards();
  for (auto* values : {&dgamma, &dbeta, &mean, &inverse, &sums}) values->expect_guards();
}

template <typename T>
void check_shapes() {
  for (const std::size_t skip : {0, 1}) {
    for (const std::size_t columns : {2, 8, 31, 96, 129, 512, 768, 1500, 2304})
      check<T>({3, columns}, skip);
    for (const std::size_t rows : {1, 31, 32, 33, 300}) check<T>({rows, 40}, skip);
  }
  check<T>({0, 40}, 0);
}

TEST(LayerNormKernel, Float32) { check_shapes<float>(); }
TEST(LayerNormKernel, Float16) { check_shapes<Float16>(); }
TEST(LayerNormKernel, BFloat16) { check_shapes<BFloat16>(); }

TEST(LayerNormKernel, ReferencesAgree) {
  const Inputs inputs = Inputs::of<float>({4, 6});
  const auto x = in_double(inputs.x), gamma = in_double(inputs.gamma),
             beta = in_double(inputs.beta), dy = in_double(inputs.dy);
  const auto gradients = reference::layer_norm_gradients(x, gamma, dy, 0.1);
  using reference::Values;
  expect_numerical_gradient(
      [&](const Values& v) { return reference::layer_norm(v, gamma, beta, 0.1); }, x, dy,
      gradients.x);
  expect_numerical_gradient([&](const Values& v) { return reference::layer_norm(x, v, beta, 0.1); },
                            gamma, dy, gradients.gamma);
  expect_numerical_gradient(
      [&](const Values& v) { return reference::layer_norm(x, gamma, v, 0.1); }, beta, dy,
      gradients.beta);
}

TEST(LayerNormKernel, ConstantRowsStayFinite) {
  TestDevice test;
  const std::vector<float> x(64, 1000.25f), gamma(64, 2.0f), beta(64, 0.5f);
  std::vector<float> y(64), mean(1), inverse(1);
  layer_norm_forward(*test.stream, y.data(), x.data(), gamma.data(), beta.data(), {1, 64}, kEpsilon,
                     {mean.data(), inverse.data()});
  test.stream->synchronize();
  EXPECT_EQ(y, beta);
  EXPECT_EQ(mean[0], 1000.25f);
}

}  // namespace
}  // namespace horo::ops::device_kernels
