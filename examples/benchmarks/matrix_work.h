#pragma once

#include <array>
#include <cstddef>

namespace horo::bench {

/// Computation that needs nothing but its core: products of two small matrices that stay in the
/// first-level cache and the one behind it. Used by one thread.
class MatrixWork {
 public:
  MatrixWork();
  /// One product, some tens of microseconds.
  void run_slice();
  /// Products per second that this core reaches in about `seconds`.
  double slices_per_second(double seconds);

 private:
  static constexpr std::size_t kRows = 64;
  using Matrix = std::array<std::array<float, kRows>, kRows>;
  Matrix a_;
  Matrix b_;
  Matrix product_{};
};

}  // namespace horo::bench
