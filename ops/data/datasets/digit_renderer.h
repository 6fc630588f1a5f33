#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace horo::ops {

inline constexpr std::size_t kDigitSide = 28;
/// Row-major grey values, 0 (paper) to 255 (ink).
using DigitImage = std::array<std::uint8_t, kDigitSide * kDigitSide>;

/// Draws `digit` (0 ... 9) in a random handwriting. `key` seeds all variation: style, point
/// positions, rotation, scale, shear, translation, pen width and softness, noise. Equal arguments
/// give equal images.
DigitImage render_digit(int digit, std::uint64_t key);

}  // namespace horo::ops
