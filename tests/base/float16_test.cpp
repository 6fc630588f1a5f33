#include "horo/base/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace horo {
namespace {

// The value of a half, computed in double from the definition of the format.
double value_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Float16, AllBitPatternsRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(half);
    const double expected = value_of_half(half.bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value))));
    } else {
      EXPECT_EQ(value, expected) << bits;
      EXPECT_EQ(Float16(value).bits, bits);
    }
  }
}

TEST(Float16, RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // all finite neighbours
    const double low = value_of_half(static_cast<std::uint16_t>(bits));
    const double high = value_of_half(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint32_t even = (bits & 1) ? bits + 1 : bits;
    EXPECT_EQ(Float16(middle).bits, even);
    EXPECT_EQ(Float16(std::nextafter(middle, 1e9f)).bits, bits + 1);
    EXPECT_EQ(Float16(std::nextafter(middle, -1e9f)).bits, bits);
    EXPECT_EQ(Float16(-middle).bits, even | 0x8000u);
  }
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Float16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
}

TEST(BFloat16, AllBitPatternsRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    BFloat16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    if (std::isnan(std::bit_cast<float>(bits << 16))) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(wide))));
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
      EXPECT_EQ(BFloat16(wide).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, down to even
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, up to even
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {  // all finite values and their successors
    const std::uint32_t middle = bits << 16 | 0x8000u;
    const std::uint32_t even = (bits & 1) ? bits + 1 : bits;
    EXPECT_EQ(BFloat16(std::bit_cast<float>(middle)).bits, even);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(middle + 1)).bits, bits + 1);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(middle - 1)).bits, bits);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(middle | 0x80000000u)).bits, even | 0x8000u);
  }
}

}  // namespace
}  // namespace horo
