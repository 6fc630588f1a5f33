#include <cmath>

#include "ops/backend/device/embedding.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

constexpr unsigned kTokenThreads = 128;

// Each block writes one row of y.
template <typename T>
struct Gather {
  T* y;
  const T* table;
  const std::int32_t* tokens;
  EmbeddingShape shape;
  const T* positions;
  std::size_t period;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const auto token = static_cast<std::uint32_t>(tokens[place.block]);
    T* to = y + place.block * shape.width;
    const bool is_known = token < shape.vocabulary;
    const T* from = is_known ? table + token * shape.width : nullptr;
    const T* position =
        positions == nullptr ? nullptr : positions + place.block % period * shape.width;
    const bool aligned = device::is_vector_aligned(to) && device::is_vector_aligned(from) &&
                         device::is_vector_aligned(position);
    for_each_piece<kPerVector<T>>(0, shape.width, aligned, place.thread, kTokenThreads,
                                  [&](auto piece, std::size_t at) {
                                    constexpr unsigned kSize = decltype(piece)::kSize;
                                    float values[kSize], more[kSize];
                                    for (float& value : values) value = NAN;
                                    if (is_known) load_piece(values, from + at);
                                    if (position != nullptr) {
                                      load_piece(more, position + at);
                                      for (unsigned i = 0; i < kSize; ++i) values[i] += more[i];
                                    }
                                    store_piece(to + at, values);
                                  });
  }
};

/// The rows of dy whose token is that of the row of the table.
struct RowsOfToken {
  const std::int32_t* tokens;
  std::size_t count;

  template <typename Use>
  HORO_KERNEL void for_each(std::size_t token, const Use& use) const {
    for (std::size_t i = 0; i < count; ++i)
      if (tokens[i] == static_cast<std::int32_t>(token)) use(i);
  }
};

/// Every period-th row of dy.
struct RowsOfPosition {
  std::size_t rows, period;

  template <typename Use>
  HORO_KERNEL void for_each(std::size_t position, const Use& use) const {
    if (position >= period) return;
    for (std::size_t i = position; i < rows; i += period) use(i);
  }
};

/// Each block writes one strip of one row of the gradient. No other block writes there, so no
/// atomics are needed. `Rows` selects the rows of dy that belong to it.
template <typename T, typename Rows>
struct SumRows {
  static constexpr unsigned kCount = kPerVector<T>;
  static constexpr std::size_t kStrip = kTokenThreads * kCount;

  T* sums;
  const T* dy;
  std::size_t width;
  Rows rows;

  HORO_KERNEL std::size_t strips() const { return (width + kStrip - 1) / kStrip; }

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t row = place.block / strips();
    const std::size_t begin = place.block % strips() * kStrip;
    const std::size_t end = begin + kStrip < width ? begin + kStrip : width;
    const bool aligned =
        device::is_vector_aligned(dy) && device::is_vector_aligned(sums) && width % kCount == 0;
    for_each_piece<kCount>(begin, end, aligned, place.thread, kTokenThreads,
                           [&](auto piece, std::size_t at) { add(piece, row, at); });
  }

 private:
  template <unsigned kSize>
  HORO_KERNEL void add(Piece<kSize>, std::size_t row, std::size_t at) const {
    float sum[kSize] = {};
    rows.for_each(row, [&](std::size_t i) {
      float values[kSize];
      load_piece(values, dy + i * width + at);
      for (unsigned e = 0; e < kSize; ++e) sum[e] += values[e];
    });
    store_piece(sums + row * width + at, sum);
  }
};

template <typename T, typename Rows>
void sum_rows(device::Stream& stream, std::size_t count, const SumRows<T, Rows>& kernel) {
  device::launch(stream, {static_cast<unsigned>(count * kernel.strips()), kTokenThreads}, kernel);
}

}  // namespace

template <typename T>
void embedding_forward(device::Stream& stream, T* y, const T* table, const std::int32_t* tokens,
                       const EmbeddingShape& shape, const T* positions, std::size_t period) {
  device::launch(stream, {static_cast<unsigned>(shape.tokens), kTokenThreads},
                 Gather<T>{y, table, tokens, shape, positions, period});
}

template <typename T>
void embedding_backward(device::Stream& stream, T* dtable, const T* dy, const std::int32_t* tokens,
                        const EmbeddingShape& shape) {
  sum_rows(stream, shape.vocabulary,
           SumRows<T, RowsOfToken>{dtable, dy, shape.width, {tokens, shape.tokens}});
}

template <typename T>
void positions_backward(device::Stream& stream, T* dpositions, std::size_t positions, const T* dy,
                        std::size_t rows, std::size_t period, std::size_t width) {
  sum_rows(stream, positions, SumRows<T, RowsOfPosition>{dpositions, dy, width, {rows, period}});
}

#define HORO_INSTANTIATE(T)                                                                 \
  template void embedding_forward(device::Stream&, T*, const T*, const std::int32_t*,       \
                                  const EmbeddingShape&, const T*, std::size_t);            \
  template void embedding_backward(device::Stream&, T*, const T*, const std::int32_t*,      \
                                   const EmbeddingShape&);                                  \
  template void positions_backward(device::Stream&, T*, std::size_t, const T*, std::size_t, \
                                   std::size_t, std::size_t);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
