#pragma once

#include <cmath>
#include <cstdint>

namespace horo {

/// What a wire type narrower than the gradients has done so far, on this rank.
struct WireReport {
  std::uint64_t bytes_sent = 0;   ///< to other ranks, as the wire type
  std::uint64_t bytes_saved = 0;  ///< that the gradients' own type would have sent more
  /// Sums over a sample of the values that were rounded, one in 64.
  double squared_error = 0;
  double squared_values = 0;
  /// How many values of the sample were too large for the wire type and became infinite.
  std::uint64_t overflowed = 0;

  WireReport& operator+=(const WireReport& other) {
    bytes_sent += other.bytes_sent;
    bytes_saved += other.bytes_saved;
    squared_error += other.squared_error;
    squared_values += other.squared_values;
    overflowed += other.overflowed;
    return *this;
  }
  /// The rounding error of one conversion by the size of what was rounded (both as Euclidean
  /// norms); 0 if nothing was.
  double relative_error() const {
    return squared_values > 0 ? std::sqrt(squared_error / squared_values) : 0;
  }
};

}  // namespace horo
