#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace horo::collectives {

/// Returns the sum of f(i) over [0, count). Lane l of 16 lanes sums f(l), f(l + 16), ..., so
/// compilers can vectorize the loop. The lanes are then added in pairs. The order of the additions
/// does not depend on the instruction set. With -ffp-contract=off, the result does not depend on
/// the instruction set either.
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
