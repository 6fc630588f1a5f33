#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace horo::collectives {

/// Returns the sum of f(i) over [0, count). Adds up 16 lanes separately and then combines the lanes
/// in pairs. Compilers can vectorize the loop. The order of the additions does not depend on the
/// instruction set, so every instruction set gives the same result.
template <typename Value, typename Function>
Value sum_in_lanes(std::size_t count, Function&& f) {
  constexpr std::size_t kLanes = 16;
  std::array<Value, kLanes> lanes{};
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  for (std::size_t i = whole; i < count; ++i) lanes[i - whole] += f(i);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// Returns the sum of the squares of `values`, in double precision.
inline double sum_of_squares(std::span<const float> values) {
  return sum_in_lanes<double>(values.size(), [&](std::size_t i) {
    const double value = values[i];
    return value * value;
  });
}

}  // namespace horo::collectives
