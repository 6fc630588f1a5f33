#include "collectives/compression/select_largest.h"

#include <array>
#include <bit>

namespace horo::collectives {
namespace {

// Ordered as magnitudes are: the bits without the sign.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};

/// The least magnitude that is selected.
struct Threshold {
  std::uint32_t magnitude = 0;
  std::size_t equal = 0;  ///< how many of that very magnitude are selected
};

// Fixes the threshold digit by digit: of the values that share its leading digits, `wanted` are
// selected.
Threshold find_threshold(std::span<const float> values, std::size_t wanted) {
  std::uint32_t prefix = 0;
  for (const auto& [shift, bits] : kDigits) {
    std::array<std::size_t, 1 << 11> counts{};
    for (const float value : values) {
      const std::uint32_t magnitude = magnitude_bits(value);
      if ((std::uint64_t{magnitude} >> (shift + bits)) == prefix)
        ++counts[(magnitude >> shift) & ((1u << bits) - 1)];
    }
    std::uint32_t digit = (1u << bits) - 1;
    for (; counts[digit] < wanted; --digit) wanted -= counts[digit];
    prefix = (prefix << bits) | digit;
  }
  return {prefix, wanted};
}

}  // namespace

void select_largest(std::span<const float> values, std::span<std::uint32_t> indices) {
  if (indices.empty()) return;
  auto [threshold, equal] = find_threshold(values, indices.size());
  std::size_t found = 0;
  for (std::size_t i = 0; found < indices.size(); ++i) {
    const std::uint32_t magnitude = magnitude_bits(values[i]);
    if (magnitude < threshold || (magnitude == threshold && equal == 0)) continue;
    if (magnitude == threshold) --equal;
    indices[found++] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace horo::collectives
