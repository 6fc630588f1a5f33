#include "horo/base/device/float_conversion.h"
#include "horo/base/device/launch.h"
#include "ops/kernels/device/transpose.h"

namespace horo::ops::device_kernels {
namespace {

// A block has a tile: its threads read it row by row, and write it column by column.
template <typename To, typename From>
struct Transpose {
  static constexpr unsigned kSide = 32, kGroups = 8;
  static constexpr unsigned kThreads = kSide * kGroups;
  static constexpr unsigned kPhases = 2;
  struct Shared {
    float tile[kSide][kSide + 1];  // one more, so that a column lies in different banks
  };
  struct Own {};

  To* y;
  const From* x;
  MatrixBatch shape;

  HORO_KERNEL static std::size_t tiles(std::size_t extent) { return (extent + kSide - 1) / kSide; }
  HORO_KERNEL std::size_t tiles_per_matrix() const {
    return tiles(shape.rows) * tiles(shape.columns);
  }

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    const unsigned lane = place.thread % kSide, group = place.thread / kSide;
    const std::size_t matrix = place.block / tiles_per_matrix();
    const std::size_t tile = place.block % tiles_per_matrix();
    const std::size_t top = tile / tiles(shape.columns) * kSide;
    const std::size_t left = tile % tiles(shape.columns) * kSide;
    const std::size_t begin = matrix * shape.rows * shape.columns;
    for (unsigned i = group; i < kSide; i += kGroups) {
      if constexpr (kPhase == 0) {
        const std::size_t row = top + i, column = left + lane;
        if (row < shape.rows && column < shape.columns)
          shared.tile[i][lane] = device::widen(x[begin + row * shape.columns + column]);
      } else {
        const std::size_t row = top + lane, column = left + i;
        if (row < shape.rows && column < shape.columns)
          y[begin + column * shape.rows + row] = device::narrow<To>(shared.tile[lane][i]);
      }
    }
  }
};

}  // namespace

template <typename To, typename From>
void transpose(device::Stream& stream, To* y, const From* x, const MatrixBatch& shape) {
  const Transpose<To, From> kernel{y, x, shape};
  const auto blocks = static_cast<unsigned>(shape.batch * kernel.tiles_per_matrix());
  device::launch(stream, {blocks, kernel.kThreads}, kernel);
}

#define HORO_INSTANTIATE(To)                                                         \
  template void transpose(device::Stream&, To*, const float*, const MatrixBatch&);   \
  template void transpose(device::Stream&, To*, const Float16*, const MatrixBatch&); \
  template void transpose(device::Stream&, To*, const BFloat16*, const MatrixBatch&);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
