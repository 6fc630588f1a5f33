#include "examples/benchmarks/matrix_work.h"

#include <chrono>

namespace horo::bench {

MatrixWork::MatrixWork() {
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kRows; ++j) {
      a_[i][j] = static_cast<float>((i + j) % 7);
      b_[i][j] = static_cast<float>((i * j) % 5);
    }
  }
}

void MatrixWork::run_slice() {
  for (std::size_t i = 0; i < kRows; ++i) {
    auto& row = product_[i];
    row.fill(0);
    for (std::size_t k = 0; k < kRows; ++k)
      for (std::size_t j = 0; j < kRows; ++j) row[j] += a_[i][k] * b_[k][j];
  }
  // The next product depends on this one, so that none is left out.
  a_[0][0] = product_[kRows - 1][kRows - 1] > 0 ? 1.0f : 2.0f;
}

double MatrixWork::slices_per_second(double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::size_t slices = 0;
  double passed = 0;
  while (passed < seconds) {
    run_slice();
    ++slices;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(slices) / passed;
}

}  // namespace horo::bench
