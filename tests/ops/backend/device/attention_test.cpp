#include "ops/backend/device/attention.h"

#include "tests/ops/backend/device/device_values.h"
#include "tests/support/reference_kernels/attention.h"

namespace horo::ops::device_kernels {
namespace {

template <typename T>
constexpr double kAttentionTolerance = std::is_same_v<T, float>     ? 1e-5
                                       : std::is_same_v<T, Float16> ? 2e-3
                                                                    : 2e-2;

template <typename T>
void check_attention(const AttentionShape& shape, std::size_t skip, float scale = 2,
                     double tolerance = kAttentionTolerance<T>) {
  SCOPED_TRACE(std::to_string(shape.positions) + " positions of " + std::to_string(shape.heads) +
               " x " + std::to_string(shape.head_size) + ", skip " + std::to_string(skip));
  TestDevice test;
  const std::size_t count = shape.batch * shape.positions * shape.width();
  std::vector<float> values = varied_values(3 * count, 1);
  for (float& value : values) value *= scale;
  values = rounded<T>(values);
  const auto gradient = rounded<T>(varied_values(count, 2));
  DeviceValues<T> qkv(test.device, values, skip), dy(test.device, gradient, skip);
  DeviceValues<T> y(test.device, std::vector<float>(count), skip);
  DeviceValues<T> dqkv(test.device, std::vector<float>(3 * count, 9), skip);
  DeviceValues<float> log_sums(test.device, std::vector<float>(shape.rows())),
      products(test.device, std::vector<float>(shape.rows()));
  attention_forward(*test.stream, y.data(), log_sums.data(), qkv.data(), shape);
  attention_backward(*test.stream, dqkv.data(), dy.data(), y.data(), qkv.data(), log_sums.data(),
                     products.data(), shape);
  test.stream->synchronize();
  expect_close(y.values(), reference::attention(shape, in_double(values)), tolerance);
  expect_close(dqkv.values(),
               reference::attention_gradient(shape, in_double(values), in_double(gradient)),
               2 * tolerance);
  for (auto* array : {&qkv, &dy, &y, &dqkv}) array->expect_guards();
  for (auto* array : {&log_sums, &products}) array->expect_guards();
}

template <typename T>
void check_attention_shapes() {
  for (const std::size_t skip : {0, 1}) {
    check_attention<T>({2, 7, 3, 8}, skip);
    check_attention<T>({1, 1, 1, 5}, skip);
    check_attention<T>({3, 33, 2, 24}, skip);
    check_attention<T>({1, 5, 1, 37}, skip);
    check_attention<T>({1, 6, 2, 100}, skip);
  }
}

TEST(AttentionKernel, Float32) { check_attention_shapes<float>(); }
TEST(AttentionKernel, Float16) { check_attention_shapes<Float16>(); }
TEST(AttentionKernel, BFloat16) { check_attention_shapes<BFloat16>(); }

// Scores of several hundred, whose exponentials are infinite in float.
TEST(AttentionKernel, StaysFiniteForLargeScores) {
  check_attention<float>({1, 9, 2, 16}, 0, 15, 1e-3);
}

TEST(AttentionKernel, ReferencesAgree) {
  const AttentionShape shape{2, 4, 2, 3};
  const auto qkv = in_double(varied_values(2 * 4 * 18, 1)), dy = in_double(varied_values(48, 2));
  expect_numerical_gradient(
      [&](const reference::Values& v) { return reference::attention(shape, v); }, qkv, dy,
      reference::attention_gradient(shape, qkv, dy));
}

}  // namespace
}  // namespace horo::ops::device_kernels
