#include "horo/base/device/float_conversion.h"
#include "horo/base/device/launch.h"
#include "ops/kernels/device/column_sums.h"

namespace horo::ops::device_kernels {
namespace {

// The threads of a warp have a column each, the warps rows of their own.
template <typename T>
struct ColumnSums {
  static constexpr unsigned kColumns = 32, kGroups = 32;
  static constexpr unsigned kThreads = kColumns * kGroups;
  static constexpr unsigned kPhases = 2;
  struct Shared {
    float sum[kGroups][kColumns];
  };
  struct Own {};

  T* sums;
  const T* x;
  std::size_t rows, columns;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    const unsigned lane = place.thread % kColumns, group = place.thread / kColumns;
    const std::size_t column = place.block * std::size_t{kColumns} + lane;
    if (column >= columns) return;
    float sum = 0;
    if constexpr (kPhase == 0) {
      for (std::size_t row = group; row < rows; row += kGroups)
        sum += device::widen(x[row * columns + column]);
      shared.sum[group][lane] = sum;
    } else if (group == 0) {
      for (unsigned g = 0; g < kGroups; ++g) sum += shared.sum[g][lane];
      sums[column] = device::narrow<T>(sum);
    }
  }
};

}  // namespace

template <typename T>
void column_sums(device::Stream& stream, T* sums, const T* x, std::size_t rows,
                 std::size_t columns) {
  using Kernel = ColumnSums<T>;
  const auto blocks = static_cast<unsigned>((columns + Kernel::kColumns - 1) / Kernel::kColumns);
  device::launch(stream, {blocks, Kernel::kThreads}, Kernel{sums, x, rows, columns});
}

template void column_sums(device::Stream&, float*, const float*, std::size_t, std::size_t);
template void column_sums(device::Stream&, Float16*, const Float16*, std::size_t, std::size_t);
template void column_sums(device::Stream&, BFloat16*, const BFloat16*, std::size_t, std::size_t);

}  // namespace horo::ops::device_kernels
