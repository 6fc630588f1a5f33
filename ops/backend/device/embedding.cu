#include <cmath>

#include "ops/backend/device/embedding.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

constexpr unsigned kThreads = 128;

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
    for_each_piece<kPerVector<T>>(0, shape.width, aligned, place.thread, kThreads,
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

// Each block updates one strip of the row of one used token. No other block writes there, so no
// atomics are needed.
template <typename T>
struct AddUses {
  static constexpr unsigned kCount = kPerVector<T>;
  static constexpr std::size_t kStrip = kThreads * kCount;

  float* dtable;
  const T* dy;
  std::size_t width;
  const std::uint32_t* places;
  const TokenUses* uses;

  HORO_KERNEL std::size_t strips() const { return (width + kStrip - 1) / kStrip; }

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const TokenUses use = uses[place.block / strips()];
    const std::size_t begin = place.block % strips() * kStrip;
    const std::size_t end = begin + kStrip < width ? begin + kStrip : width;
    const bool aligned =
        device::is_vector_aligned(dy) && device::is_vector_aligned(dtable) && width % kCount == 0;
    for_each_piece<kCount>(begin, end, aligned, place.thread, kThreads,
                           [&](auto piece, std::size_t at) { add(piece, use, at); });
  }

 private:
  template <unsigned kSize>
  HORO_KERNEL void add(Piece<kSize>, const TokenUses& use, std::size_t at) const {
    float sum[kSize] = {};
    for (std::uint32_t i = use.first; i < use.last; ++i) {
      float values[kSize];
      load_piece(values, dy + places[i] * width + at);
      for (unsigned e = 0; e < kSize; ++e) sum[e] += values[e];
    }
    float* to = dtable + static_cast<std::size_t>(use.token) * width + at;
    float before[kSize];
    load_piece(before, to);
    for (unsigned e = 0; e < kSize; ++e) sum[e] += before[e];
    store_piece(to, sum);
  }
};

}  // namespace

template <typename T>
void embedding_forward(device::Stream& stream, T* y, const T* table, const std::int32_t* tokens,
                       const EmbeddingShape& shape, const T* positions, std::size_t period) {
  device::launch(stream, {static_cast<unsigned>(shape.tokens), kThreads},
                 Gather<T>{y, table, tokens, shape, positions, period});
}

template <typename T>
void embedding_backward(device::Stream& stream, float* dtable, const T* dy, std::size_t width,
                        const std::uint32_t* places, const TokenUses* uses, std::size_t count) {
  const AddUses<T> kernel{dtable, dy, width, places, uses};
  device::launch(stream, {static_cast<unsigned>(count * kernel.strips()), kThreads}, kernel);
}

#define HORO_INSTANTIATE(T)                                                           \
  template void embedding_forward(device::Stream&, T*, const T*, const std::int32_t*, \
                                  const EmbeddingShape&, const T*, std::size_t);      \
  template void embedding_backward(device::Stream&, float*, const T*, std::size_t,    \
                                   const std::uint32_t*, const TokenUses*, std::size_t);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
