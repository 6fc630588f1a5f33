#pragma once

#include <bit>
#include <cstdint>

namespace horo::coordinator {

/// What an operation multiplies: each rank's values before it, and its result after it.
struct ScaleFactors {
  double before = 1;
  double after = 1;

  bool are_one() const { return before == 1 && after == 1; }
  /// Whether the bits are equal: with 0 on one rank and -0 on another, their results would differ.
  friend bool operator==(const ScaleFactors& a, const ScaleFactors& b) {
    return bits_equal(a.before, b.before) && bits_equal(a.after, b.after);
  }

 private:
  static bool bits_equal(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  }
};

}  // namespace horo::coordinator
