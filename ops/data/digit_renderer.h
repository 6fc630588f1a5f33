#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace horo::ops {

inline constexpr std::size_t kDigitSide = 28;
/// Row-major grey values, 0 (paper) to 255 (ink).
using DigitImage = std::array<std::uint8_t, kDigitSide * kDigitSide>;

/// Draws `digit` (0 ... 9) as some hand might write it. Everything by which images of a digit
/// differ is drawn from `key`: style, place of the pen's points, rotation, scale, shear,
/// translation, width and softness of the pen, noise. The same arguments give the same image.
DigitImage render_digit(int digit, std::uint64_t key);

}  // namespace horo::ops
