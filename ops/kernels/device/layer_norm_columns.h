#pragma once

#include "horo/base/device/launch.h"
#include "ops/kernels/device/layer_norm.h"
#include "ops/kernels/device/pieces.h"

namespace horo::ops::device_kernels {

/// A thread sums a piece of columns over a chunk of rows.
template <typename T>
struct SumColumns {
  static constexpr unsigned kThreads = 32;
  static constexpr unsigned kCount = kPerWord<T>;
  static constexpr std::size_t kRows = 32;  // of a chunk

  const T* dy;
  const T* x;
  NormShape shape;
  NormStatistics statistics;
  float* sums;  // [chunks][dgamma, dbeta][columns]

  std::size_t chunks() const { return (shape.rows + kRows - 1) / kRows; }
  HORO_KERNEL std::size_t strips() const {
    return (shape.columns + kThreads * kCount - 1) / (kThreads * kCount);
  }

  HORO_KERNEL void operator()(const device::Place& place) const {
    const std::size_t chunk = place.block / strips();
    const std::size_t begin = place.block % strips() * kThreads * kCount;
    const std::size_t end =
        begin + kThreads * kCount < shape.columns ? begin + kThreads * kCount : shape.columns;
    const bool aligned = device::is_word_aligned(dy) && device::is_word_aligned(x) &&
                         device::is_word_aligned(sums) && shape.columns % kCount == 0;
    for_each_piece<kCount>(begin, end, aligned, place.thread, kThreads,
                           [&](auto piece, std::size_t at) { sum(piece, chunk, at); });
  }

 private:
  template <unsigned kSize>
  HORO_KERNEL void sum(Piece<kSize>, std::size_t chunk, std::size_t at) const {
    const std::size_t first = chunk * kRows;
    const std::size_t last = first + kRows < shape.rows ? first + kRows : shape.rows;
    float dgamma[kSize] = {}, dbeta[kSize] = {};
    for (std::size_t row = first; row < last; ++row) {
      const float mean = statistics.mean[row], inverse = statistics.inverse_deviation[row];
      float g[kSize], n[kSize];
      load_piece(g, dy + row * shape.columns + at);
      load_piece(n, x + row * shape.columns + at);
      for (unsigned i = 0; i < kSize; ++i) {
        dgamma[i] += g[i] * (n[i] - mean) * inverse;
        dbeta[i] += g[i];
      }
    }
    store_piece(sums + 2 * chunk * shape.columns + at, dgamma);
    store_piece(sums + (2 * chunk + 1) * shape.columns + at, dbeta);
  }
};

/// A block adds the chunks' sums for 32 of 2 * columns values: the threads of a warp have one
/// each, the warps chunks of their own.
struct AddColumnSums {
  static constexpr unsigned kColumns = 32, kGroups = 8;
  static constexpr unsigned kThreads = kColumns * kGroups;
  static constexpr unsigned kPhases = 2;
  struct Shared {
    float sum[kGroups][kColumns];
  };
  struct Own {};

  const float* sums;
  std::size_t chunks, columns;
  float* dgamma;
  float* dbeta;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    const unsigned lane = place.thread % kColumns, group = place.thread / kColumns;
    const std::size_t value = place.block * std::size_t{kColumns} + lane;
    if constexpr (kPhase == 0) {
      float sum = 0;
      if (value < 2 * columns)
        for (std::size_t chunk = group; chunk < chunks; chunk += kGroups)
          sum += sums[chunk * 2 * columns + value];
      shared.sum[group][lane] = sum;
    }
    if constexpr (kPhase == 1) {
      if (group > 0 || value >= 2 * columns) return;
      float sum = 0;
      for (unsigned g = 0; g < kGroups; ++g) sum += shared.sum[g][lane];
      (value < columns ? dgamma[value] : dbeta[value - columns]) = sum;
    }
  }
};

}  // namespace horo::ops::device_kernels
