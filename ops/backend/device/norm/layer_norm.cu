#include <cmath>

#include "horo/device/block_reduction.h"
#include "horo/device/launch.h"
#include "ops/backend/device/norm/layer_norm.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

/// Each block normalises one row.
template <typename T, unsigned kThreadCount>
struct NormaliseRows {
  static constexpr unsigned kThreads = kThreadCount;
  static constexpr unsigned kPhases = 5;
  static constexpr unsigned kCount = kPerVector<T>;
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
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own& own) const {
    const T* row = x + place.block * columns;
    const auto count = static_cast<float>(columns);
    if constexpr (kPhase == 0) {
      shared.sum.give(place.thread, sum_of(row, place.thread, [](float value) { return value; }));
    }
    if constexpr (kPhase == 1 || kPhase == 3) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2) {
      // Two passes: the variance is the mean of squared differences from the mean. The formula
      // E[x^2] - mean^2 would lose precision by cancellation if the mean is large. The second pass
      // reads the row from the cache.
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
    for_each_piece<kCount>(0, columns, device::is_vector_aligned(row), thread, kThreads,
                           [&](auto piece, std::size_t at) {
                             float values[decltype(piece)::kSize];
                             load_piece(values, row + at);
                             for (const float value : values) sum += function(value);
                           });
    return sum;
  }
  HORO_KERNEL void write(T* to, const T* row, float mean, float inverse, unsigned thread) const {
    const bool aligned = device::is_vector_aligned(row) && device::is_vector_aligned(to) &&
                         device::is_vector_aligned(gamma) && device::is_vector_aligned(beta);
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

/// Computes two sums in one reduction.
struct TwoSums {
  float first, second;
  HORO_KERNEL friend TwoSums operator+(const TwoSums& a, const TwoSums& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

/// Each block computes one row: dx = (g - mean(g) - n mean(g n)) / deviation, where g = dy gamma
/// and n is the normalised row.
template <typename T, unsigned kThreadCount>
struct NormaliseRowsBackward {
  static constexpr unsigned kThreads = kThreadCount;
  static constexpr unsigned kPhases = 3;
  static constexpr unsigned kCount = kPerVector<T>;
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
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
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
    const bool aligned = device::is_vector_aligned(dx + begin) &&
                         device::is_vector_aligned(dy + begin) &&
                         device::is_vector_aligned(x + begin) && device::is_vector_aligned(gamma);
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

/// Each thread sums a few adjacent columns over a chunk of rows.
template <typename T>
struct SumColumns {
  static constexpr unsigned kThreads = 32;
  static constexpr unsigned kCount = kPerVector<T>;
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

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t chunk = place.block / strips();
    const std::size_t begin = place.block % strips() * kThreads * kCount;
    const std::size_t end =
        begin + kThreads * kCount < shape.columns ? begin + kThreads * kCount : shape.columns;
    const bool aligned = device::is_vector_aligned(dy) && device::is_vector_aligned(x) &&
                         device::is_vector_aligned(sums) && shape.columns % kCount == 0;
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

/// Each block adds the sums of all chunks for 32 of the 2 * columns values. The threads of a warp
/// handle one value each, and the warps handle different chunks.
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
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
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

// Chooses the block size so that each thread handles one or two words of a row.
template <typename T, template <typename, unsigned> typename Kernel, typename... Arguments>
void launch_by_row(device::Stream& stream, const NormShape& shape, const Arguments&... arguments) {
  const std::size_t words = shape.columns / kPerVector<T>;
  const auto launch = [&]<typename K>(const K& kernel) {
    device::launch(stream, {static_cast<unsigned>(shape.rows), K::kThreads}, kernel);
  };
  if (words <= 64) return launch(Kernel<T, 32>{arguments...});
  if (words <= 256) return launch(Kernel<T, 128>{arguments...});
  launch(Kernel<T, 256>{arguments...});
}

}  // namespace

template <typename T>
void layer_norm_forward(device::Stream& stream, T* y, const T* x, const float* gamma,
                        const float* beta, const NormShape& shape, float epsilon,
                        const NormStatistics& statistics) {
  launch_by_row<T, NormaliseRows>(stream, shape, y, x, gamma, beta, shape.columns, epsilon,
                                  statistics);
}

template <typename T>
void layer_norm_backward(device::Stream& stream, T* dx, const T* dy, const T* x, const float* gamma,
                         const NormShape& shape, const NormStatistics& statistics) {
  launch_by_row<T, NormaliseRowsBackward>(stream, shape, dx, dy, x, gamma, shape.columns,
                                          statistics);
}

std::size_t count_norm_sums(const NormShape& shape) {
  return 2 * shape.columns * SumColumns<float>{nullptr, nullptr, shape, {}, nullptr}.chunks();
}

template <typename T>
void layer_norm_parameters_backward(device::Stream& stream, float* dgamma, float* dbeta,
                                    const T* dy, const T* x, const NormShape& shape,
                                    const NormStatistics& statistics, float* sums) {
  const SumColumns<T> kernel{dy, x, shape, statistics, sums};
  device::launch(
      stream, {static_cast<unsigned>(kernel.chunks() * kernel.strips()), kernel.kThreads}, kernel);
  using Add = AddColumnSums;
  const auto blocks =
      static_cast<unsigned>((2 * shape.columns + Add::kColumns - 1) / Add::kColumns);
  device::launch(stream, {blocks, Add::kThreads},
                 Add{sums, kernel.chunks(), shape.columns, dgamma, dbeta});
}

#define HORO_INSTANTIATE(T)                                                                       \
  template void layer_norm_forward(device::Stream&, T*, const T*, const float*, const float*,     \
                                   const NormShape&, float, const NormStatistics&);               \
  template void layer_norm_backward(device::Stream&, T*, const T*, const T*, const float*,        \
                                    const NormShape&, const NormStatistics&);                     \
  template void layer_norm_parameters_backward(device::Stream&, float*, float*, const T*,         \
                                               const T*, const NormShape&, const NormStatistics&, \
                                               float*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
