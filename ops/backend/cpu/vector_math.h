#pragma once

#include <bit>
#include <cstdint>
#include <limits>

// Private to ops/backend/cpu: functions of single values that the compiler can vectorise in a loop
// with `#pragma omp simd`, in contrast to those of the C library.

namespace horo::ops::cpu {

/// e^x within 2 units in the last place for x in [-87, 88]; 0 below and infinity above. NaN stays
/// NaN. Splits x into n ln 2 + r with |r| <= ln 2 / 2. The coefficients of e^r are those of the
/// Cephes library (Moshier, 1992).
inline float exp_in_loop(float x) {
  constexpr float kLeast = -87.0f, kLargest = 88.0f;
  const float above = x < kLeast ? kLeast : x;
  const float bounded = above > kLargest ? kLargest : above;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = bounded * 1.44269504088896341f + kRounding;
  const float n = shifted - kRounding;
  const float r = bounded - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // Adds n to the exponent. The low bits of `shifted` are n.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  const float result = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
  const float in_range = x < kLeast ? 0.0f : x > kLargest ? kInfinity : result;
  return x != x ? x : in_range;
}

}  // namespace horo::ops::cpu
