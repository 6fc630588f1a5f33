#pragma once

#include <bit>
#include <cstdint>

namespace horo {

/// IEEE 754 binary16, stored as bits. Has no arithmetic: convert to float. The conversion to float
/// is exact. The conversion from float rounds to nearest, ties to even, and may give subnormals. A
/// value that is too large becomes infinite, and NaN stays NaN.
struct Float16 {
  std::uint16_t bits = 0;  ///< sign, 5 bits of exponent, 10 bits of mantissa

  Float16() = default;
  /// Rounds `value`.
  explicit Float16(float value) : bits(from_float(value)) {}
  /// The value, exactly.
  explicit operator float() const { return to_float(bits); }

  /// The bits of `value`, rounded.
  static std::uint16_t from_float(float value) {
    const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (x >> 16) & 0x8000u;
    const std::uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u)  // NaN: make it quiet, keep the upper payload bits
      return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u)  // 65520 or more: rounds to infinity
      return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero; the addition rounds
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign |
                                        (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
  /// The value that `bits` represent.
  static float to_float(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude < 0x400u) {  // zero or subnormal: an exact multiple of 2^-24
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  }
};

/// bfloat16 (the upper half of a binary32), stored as bits. Conversions are as those of Float16.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< sign, 8 bits of exponent, 7 bits of mantissa

  BFloat16() = default;
  /// Rounds `value`.
  explicit BFloat16(float value) : bits(from_float(value)) {}
  /// The value, exactly.
  explicit operator float() const { return to_float(bits); }

  /// The bits of `value`, rounded.
  static std::uint16_t from_float(float value) {
    const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
    return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
  /// The value that `bits` represent.
  static float to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2);

}  // namespace horo
