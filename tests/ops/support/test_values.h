#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "tests/support/reference_kernels/values.h"

namespace horo::ops {

/// Values in (-1, 1) that vary by index and seed.
inline std::vector<float> varied_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.0f, 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

inline reference::Values in_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// Every element within `tolerance` times max(1, |expected|).
inline void expect_close(std::span<const float> actual, const reference::Values& expected,
                         double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "at index " << i;
  }
}

/// The derivative of objective() with respect to `value`, from values `step` above and below.
/// `value` is unchanged at the end.
template <typename T, typename Objective>
double central_difference(const Objective& objective, T& value, T step) {
  const T centre = value;
  value = centre + step;
  const double above = objective();
  value = centre - step;
  const double below = objective();
  value = centre;
  return (above - below) / (2.0 * step);
}

/// Compares `gradient` with central differences of sum(weighting * function(values)) with respect
/// to `values`.
inline void expect_numerical_gradient(
    const std::function<reference::Values(const reference::Values&)>& function,
    reference::Values values, const reference::Values& weighting,
    const reference::Values& gradient) {
  ASSERT_EQ(values.size(), gradient.size());
  const auto objective = [&] {
    const reference::Values result = function(values);
    EXPECT_EQ(result.size(), weighting.size());
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) sum += result[i] * weighting[i];
    return sum;
  };
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(central_difference(objective, values[i], kStep), gradient[i], 1e-6)
        << "at index " << i;
  }
}

}  // namespace horo::ops
