#include <algorithm>

#include "horo/device/float_conversion.h"
#include "horo/device/launch.h"
#include "ops/backend/device/matrix.h"

namespace horo::ops::device_kernels {
namespace {

// Each block handles one tile: it reads the tile row by row and writes it column by column, so that
// both accesses are coalesced.
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
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
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

// Each block sums a chunk of the rows for 32 columns. Each thread of a warp handles one column, and
// each warp its own subset of the rows.
template <typename To, typename From>
struct ColumnSums {
  static constexpr unsigned kColumns = 32, kGroups = 32;
  static constexpr unsigned kThreads = kColumns * kGroups;
  static constexpr unsigned kPhases = 2;
  struct Shared {
    float sum[kGroups][kColumns];
  };
  struct Own {};

  To* sums;  // [chunks, columns]
  const From* x;
  std::size_t rows, columns, rows_per_chunk;

  HORO_KERNEL std::size_t strips() const { return (columns + kColumns - 1) / kColumns; }
  HORO_KERNEL std::size_t chunks() const { return (rows + rows_per_chunk - 1) / rows_per_chunk; }

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    const unsigned lane = place.thread % kColumns, group = place.thread / kColumns;
    const std::size_t chunk = place.block / strips();
    const std::size_t column = place.block % strips() * kColumns + lane;
    if (column >= columns) return;
    float sum = 0;
    if constexpr (kPhase == 0) {
      const std::size_t first = chunk * rows_per_chunk;
      const std::size_t last = first + rows_per_chunk < rows ? first + rows_per_chunk : rows;
      for (std::size_t row = first + group; row < last; row += kGroups)
        sum += device::widen(x[row * columns + column]);
      shared.sum[group][lane] = sum;
    } else if (group == 0) {
      // Adds the groups in order, so the result has the same bits in every run.
      for (unsigned g = 0; g < kGroups; ++g) sum += shared.sum[g][lane];
      sums[chunk * columns + column] = device::narrow<To>(sum);
    }
  }
};

template <typename To, typename From>
void launch_column_sums(device::Stream& stream, const ColumnSums<To, From>& kernel) {
  device::launch(
      stream, {static_cast<unsigned>(kernel.strips() * kernel.chunks()), kernel.kThreads}, kernel);
}

// A chunk is large enough to hide the cost of the second launch, and there are enough chunks for
// all multiprocessors of a GPU.
constexpr std::size_t kRowsPerChunk = 512, kMostChunks = 256;

std::size_t rows_per_chunk(std::size_t rows) {
  return std::max(kRowsPerChunk, (rows + kMostChunks - 1) / kMostChunks);
}

// Each thread writes one element.
template <typename T>
struct ResizeRows {
  static constexpr unsigned kThreads = 256;

  T* y;
  std::size_t y_columns;
  const T* x;
  std::size_t x_columns, rows;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t at = place.block * std::size_t{kThreads} + place.thread;
    if (at >= rows * y_columns) return;
    const std::size_t row = at / y_columns, column = at % y_columns;
    y[at] = column < x_columns ? x[row * x_columns + column] : device::narrow<T>(0.0f);
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

std::size_t column_sums_scratch(std::size_t rows, std::size_t columns) {
  const std::size_t chunks = (rows + rows_per_chunk(rows) - 1) / rows_per_chunk(rows);
  return chunks > 1 ? chunks * columns : 0;
}

template <typename T>
void column_sums(device::Stream& stream, T* sums, const T* x, std::size_t rows, std::size_t columns,
                 float* scratch) {
  if (column_sums_scratch(rows, columns) == 0)
    return launch_column_sums(stream, ColumnSums<T, T>{sums, x, rows, columns, rows});
  const ColumnSums<float, T> of_chunks{scratch, x, rows, columns, rows_per_chunk(rows)};
  launch_column_sums(stream, of_chunks);
  const std::size_t chunks = of_chunks.chunks();
  launch_column_sums(stream, ColumnSums<T, float>{sums, scratch, chunks, columns, chunks});
}

#define HORO_INSTANTIATE(T) \
  template void column_sums(device::Stream&, T*, const T*, std::size_t, std::size_t, float*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

template <typename T>
void resize_rows(device::Stream& stream, T* y, std::size_t y_columns, const T* x,
                 std::size_t x_columns, std::size_t rows) {
  using Kernel = ResizeRows<T>;
  const std::size_t count = rows * y_columns;
  const auto blocks = static_cast<unsigned>((count + Kernel::kThreads - 1) / Kernel::kThreads);
  device::launch(stream, {blocks, Kernel::kThreads}, Kernel{y, y_columns, x, x_columns, rows});
}

template void resize_rows(device::Stream&, float*, std::size_t, const float*, std::size_t,
                          std::size_t);
template void resize_rows(device::Stream&, Float16*, std::size_t, const Float16*, std::size_t,
                          std::size_t);
template void resize_rows(device::Stream&, BFloat16*, std::size_t, const BFloat16*, std::size_t,
                          std::size_t);

}  // namespace horo::ops::device_kernels
