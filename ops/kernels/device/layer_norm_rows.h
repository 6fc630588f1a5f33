#pragma once

#include <cmath>

#include "horo/base/device/block_reduction.h"
#include "ops/kernels/device/layer_norm.h"
#include "ops/kernels/device/pieces.h"

namespace horo::ops::device_kernels {

/// A block has a row.
template <typename T, unsigned kThreadCount>
struct NormaliseRows {
  static constexpr unsigned kThreads = kThreadCount;
  static constexpr unsigned kPhases = 5;
  static constexpr unsigned kCount = kPerWord<T>;
  struct Shared {
    device::BlockReduction<float, kThreads> sum;
  };
  struct Own {
    float mean = 0;
  };

  T* y;
  const T* x;
  const float* gamma;
  const float* beta;
  std::size_t columns;
  float epsilon;
  NormStatistics statistics;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own& own) const {
    const T* row = x + place.block * columns;
    const auto count = static_cast<float>(columns);
    if constexpr (kPhase == 0) {
      shared.sum.give(place.thread, sum_of(row, place.thread, [](float value) { return value; }));
    }
    if constexpr (kPhase == 1 || kPhase == 3) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2) {
      const float mean = own.mean = shared.sum.result() / count;
      shared.sum.give(place.thread, sum_of(row, place.thread, [mean](float value) {
                        return (value - mean) * (value - mean);
                      }));
    }
    if constexpr (kPhase == 4) {
      const float inverse = 1 / std::sqrt(shared.sum.result() / count + epsilon);
      if (place.thread == 0) {
        statistics.mean[place.block] = own.mean;
        statistics.inverse_deviation[place.block] = inverse;
      }
      write(y + place.block * columns, row, own.mean, inverse, place.thread);
    }
  }

 private:
  template <typename Function>
  HORO_KERNEL float sum_of(const T* row, unsigned thread, const Function& function) const {
    float sum = 0;
    for_each_piece<kCount>(0, columns, device::is_word_aligned(row), thread, kThreads,
                           [&](auto piece, std::size_t at) {
                             float values[decltype(piece)::kSize];
                             load_piece(values, row + at);
                             for (const float value : values) sum += function(value);
                           });
    return sum;
  }
  HORO_KERNEL void write(T* to, const T* row, float mean, float inverse, unsigned thread) const {
    const bool aligned = device::is_word_aligned(row) && device::is_word_aligned(to) &&
                         device::is_word_aligned(gamma) && device::is_word_aligned(beta);
    for_each_piece<kCount>(0, columns, aligned, thread, kThreads, [&](auto piece, std::size_t at) {
      constexpr unsigned kSize = decltype(piece)::kSize;
      float values[kSize], factor[kSize], shift[kSize];
      load_piece(values, row + at);
      load_piece(factor, gamma + at);
      load_piece(shift, beta + at);
      for (unsigned i = 0; i < kSize; ++i)
        values[i] = (values[i] - mean) * inverse * factor[i] + shift[i];
      store_piece(to + at, values);
    });
  }
};

/// Two sums at once.
struct TwoSums {
  float first, second;
  HORO_KERNEL friend TwoSums operator+(const TwoSums& a, const TwoSums& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

/// A block has a row: dx = (g - mean(g) - n mean(g n)) / deviation, where g = dy gamma and n is
/// what was normalised.
template <typename T, unsigned kThreadCount>
struct NormaliseRowsBackward {
  static constexpr unsigned kThreads = kThreadCount;
  static constexpr unsigned kPhases = 3;
  static constexpr unsigned kCount = kPerWord<T>;
  struct Shared {
    device::BlockReduction<TwoSums, kThreads> sums;
  };
  struct Own {};

  T* dx;
  const T* dy;
  const T* x;
  const float* gamma;
  std::size_t columns;
  NormStatistics statistics;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    const std::size_t begin = place.block * columns;
    const float mean = statistics.mean[place.block];
    const float inverse = statistics.inverse_deviation[place.block];
    if constexpr (kPhase == 0) {
      TwoSums sums{0, 0};
      for_each(begin, mean, inverse, place.thread, [&](auto, std::size_t, auto& g, auto& n) {
        for (unsigned i = 0; i < sizeof g / sizeof *g; ++i)
          sums = sums + TwoSums{g[i], g[i] * n[i]};
      });
      shared.sums.give(place.thread, sums);
    }
    if constexpr (kPhase == 1) shared.sums.combine(place.thread);
    if constexpr (kPhase == 2) {
      const TwoSums sums = shared.sums.result();
      const float mean_g = sums.first / static_cast<float>(columns);
      const float mean_gn = sums.second / static_cast<float>(columns);
      for_each(begin, mean, inverse, place.thread, [&](auto, std::size_t at, auto& g, auto& n) {
        for (unsigned i = 0; i < sizeof g / sizeof *g; ++i)
          g[i] = inverse * (g[i] - mean_g - n[i] * mean_gn);
        store_piece(dx + begin + at, g);
      });
    }
  }

 private:
  template <typename Use>
  HORO_KERNEL void for_each(std::size_t begin, float mean, float inverse, unsigned thread,
                            const Use& use) const {
    const bool aligned = device::is_word_aligned(dx + begin) &&
                         device::is_word_aligned(dy + begin) &&
                         device::is_word_aligned(x + begin) && device::is_word_aligned(gamma);
    for_each_piece<kCount>(0, columns, aligned, thread, kThreads, [&](auto piece, std::size_t at) {
      constexpr unsigned kSize = decltype(piece)::kSize;
      float g[kSize], n[kSize], factor[kSize];
      load_piece(g, dy + begin + at);
      load_piece(n, x + begin + at);
      load_piece(factor, gamma + at);
      for (unsigned i = 0; i < kSize; ++i) {
        g[i] *= factor[i];
        n[i] = (n[i] - mean) * inverse;
      }
      use(piece, at, g, n);
    });
  }
};

}  // namespace horo::ops::device_kernels
