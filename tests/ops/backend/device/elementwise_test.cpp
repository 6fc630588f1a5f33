#include "ops/backend/device/elementwise.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ops/backend/cpu/elementwise.h"
#include "tests/ops/backend/device/device_values.h"
#include "tests/support/reference_kernels/gelu.h"

namespace horo::ops::device_kernels {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 3, 255, 2048, 2049, 5000};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
constexpr double kElementwiseTolerance = std::is_same_v<T, float>     ? 2e-6
                                         : std::is_same_v<T, Float16> ? 1e-3
                                                                      : 8e-3;

// Runs `device` on all counts and alignments, out of place and in place over its first input, and
// compares the result with `expected`.
template <typename T>
void check_binary(
    const std::function<void(device::Stream&, T*, const T*, const T*, std::size_t)>& device,
    const std::function<reference::Values(const reference::Values&, const reference::Values&)>&
        expected) {
  for (const std::size_t count : kCounts)
    for (const std::size_t skip : {0, 1}) {
      TestDevice test;
      std::vector<float> a = rounded<T>(varied_values(count, 1)),
                         b = rounded<T>(varied_values(count, 2));
      for (std::size_t i = 0; i < count; ++i) a[i] *= 4;
      if (count > 2) a[1] = b[2] = 0;
      DeviceValues<T> x(test.device, a, skip), z(test.device, b, skip);
      DeviceValues<T> y(test.device, std::vector<float>(count, 5.0f), skip);
      device(*test.stream, y.data(), x.data(), z.data(), count);
      test.stream->synchronize();
      const reference::Values expected_values = expected(in_double(a), in_double(b));
      expect_close(y.values(), expected_values, kElementwiseTolerance<T>);
      EXPECT_EQ(x.values(), a);
      device(*test.stream, x.data(), x.data(), z.data(), count);
      test.stream->synchronize();
      EXPECT_EQ(x.values(), y.values());
      for (auto* values : {&x, &y, &z}) values->expect_guards();
    }
}

template <typename T>
void check_all() {
  using reference::Values;
  const auto each = [](auto&& function) {
    return [function](const Values& a, const Values& b) {
      Values result;
      for (std::size_t i = 0; i < a.size(); ++i) result.push_back(function(a[i], b[i]));
      return result;
    };
  };
  const auto relu = [](double x) { return x > 0 ? x : 0; };
  check_binary<T>([](auto& s, T* y, const T* a, const T* b, auto n) { add(s, y, a, b, n); },
                  each([](double a, double b) { return a + b; }));
  check_binary<T>([](auto& s, T* y, const T* a, const T* b, auto n) { add_relu(s, y, a, b, n); },
                  each([=](double a, double b) { return relu(a + b); }));
  check_binary<T>([](auto& s, T* y, const T* a, const T*, auto n) { relu_forward(s, y, a, n); },
                  each([=](double a, double) { return relu(a); }));
  check_binary<T>(
      [](auto& s, T* y, const T* a, const T* b, auto n) { relu_backward(s, y, a, b, n); },
      each([](double a, double b) { return b > 0 ? a : 0; }));
  check_binary<T>(
      [](auto& s, T* y, const T* a, const T* b, auto n) { add_relu_backward(s, y, a, b, b, n); },
      each([](double a, double b) { return b > 0 ? a + b : 0; }));
  check_binary<T>(
      [](auto& s, T* y, const T* a, const T* b, auto n) { add_relu_backward(s, y, b, a, a, n); },
      each([](double a, double b) { return a > 0 ? a + b : 0; }));
  check_binary<T>([](auto& s, T* y, const T* a, const T*, auto n) { gelu_forward(s, y, a, n); },
                  [](const Values& a, const Values&) { return reference::gelu(a); });
  check_binary<T>(
      [](auto& s, T* y, const T* a, const T* b, auto n) { gelu_backward(s, y, a, b, n); },
      [](const Values& a, const Values& b) { return reference::gelu_gradient(b, a); });
  check_binary<T>([](auto& s, T* y, const T* a, const T*, auto n) { scale(s, y, a, -0.5f, n); },
                  each([](double a, double) { return -0.5 * a; }));
  const float factor = 3;
  check_binary<T>(
      [&](auto& s, T* y, const T* a, const T*, auto n) { scale(s, y, a, 0.5f, n, &factor); },
      each([](double a, double) { return 1.5 * a; }));
  check_binary<T>([](auto& s, T* y, const T*, const T*, auto n) { fill(s, y, 0.75f, n); },
                  each([](double, double) { return 0.75; }));
}

TEST(Elementwise, Float32) { check_all<float>(); }
TEST(Elementwise, Float16) { check_all<Float16>(); }
TEST(Elementwise, BFloat16) { check_all<BFloat16>(); }

template <typename To, typename From>
void check_conversion() {
  for (const std::size_t count : kCounts)
    for (const std::size_t skip : {0, 1}) {
      TestDevice test;
      DeviceValues<From> x(test.device, varied_values(count, 7), skip);
      DeviceValues<To> y(test.device, std::vector<float>(count), skip);
      convert(*test.stream, y.data(), x.data(), count);
      test.stream->synchronize();
      EXPECT_EQ(y.values(), rounded<To>(x.values()));
      y.expect_guards();
    }
}

TEST(Elementwise, ConvertsEveryTypeToEveryOther) {
  check_conversion<float, Float16>();
  check_conversion<float, BFloat16>();
  check_conversion<Float16, float>();
  check_conversion<BFloat16, float>();
  check_conversion<Float16, BFloat16>();
  check_conversion<BFloat16, BFloat16>();
}

TEST(Elementwise, GeluReferencesAgree) {
  const reference::Values x = in_double(varied_values(50, 3)), dy = in_double(varied_values(50, 4));
  expect_numerical_gradient(reference::gelu, x, dy, reference::gelu_gradient(x, dy));
}

TEST(Elementwise, GeluReachesItsLimits) {
  TestDevice test;
  std::vector<float> x{1e20f, -1e20f, 20, -20, 3e38f, -3e38f}, y(6), dx(6), ones(6, 1.0f);
  gelu_forward(*test.stream, y.data(), x.data(), 6);
  gelu_backward(*test.stream, dx.data(), ones.data(), x.data(), 6);
  test.stream->synchronize();
  EXPECT_EQ(y, (std::vector<float>{1e20f, 0, 20, 0, 3e38f, 0}));
  EXPECT_EQ(dx, (std::vector<float>{1, 0, 1, 0, 1, 0}));
}

TEST(Elementwise, ReluMatchesTheCpuForSpecialValues) {
  TestDevice test;
  const std::vector<float> x{std::nanf(""), kInfinity, -kInfinity, -0.0f, 1e-40f, -1e-40f};
  const std::vector<float> dy{1, 2, 3, 4, 5, 6};
  std::vector<float> y(6), dx(6), host = x, host_dx = dy;
  relu_forward(*test.stream, y.data(), x.data(), 6);
  relu_backward(*test.stream, dx.data(), dy.data(), y.data(), 6);
  test.stream->synchronize();
  cpu::relu_forward(host);
  cpu::relu_backward(host_dx, host);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(host[0]));
  EXPECT_EQ(std::vector(y.begin() + 1, y.end()), std::vector(host.begin() + 1, host.end()));
  EXPECT_EQ(dx, host_dx);
}

}  // namespace
}  // namespace horo::ops::device_kernels
