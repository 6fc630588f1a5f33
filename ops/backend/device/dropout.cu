#include <algorithm>

#include "ops/backend/device/dropout.h"
#include "ops/backend/device/pieces.h"
#include "ops/backend/philox.h"

namespace horo::ops::device_kernels {
namespace {

// Each thread handles 4 or 8 consecutive features of a row. One call of Philox serves 4 features.
template <typename T>
struct Dropout {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kCount = kPerVector<T>;

  T* y;
  const T* x;
  std::size_t rows, features;
  std::uint64_t key;
  const std::uint64_t* step;
  const std::uint64_t* samples;
  std::uint64_t threshold;
  float factor;

  std::size_t pieces_per_row() const { return (features + kCount - 1) / kCount; }

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t per_row = (features + kCount - 1) / kCount;
    const std::size_t piece = place.block * std::size_t{kThreads} + place.thread;
    if (piece >= rows * per_row) return;
    const std::size_t row = piece / per_row, feature = piece % per_row * kCount;
    const std::uint64_t now = step == nullptr ? key : mix(key, *step);
    std::uint32_t draws[kCount];
    for (unsigned i = 0; i < kCount; i += 4) {
      const PhiloxWords words = philox_rounds(now, samples[row], (feature + i) / 4);
      for (unsigned w = 0; w < 4; ++w) draws[i + w] = words.word[w];
    }
    const std::size_t at = row * features + feature;
    const std::size_t left = features - feature;
    if (left >= kCount && device::is_vector_aligned(x + at) && device::is_vector_aligned(y + at)) {
      float values[kCount];
      load_piece(values, x + at);
      for (unsigned i = 0; i < kCount; ++i)
        values[i] = draws[i] >= threshold ? values[i] * factor : 0;
      store_piece(y + at, values);
    } else {
      for (unsigned i = 0; i < kCount; ++i)
        if (i < left)
          y[at + i] =
              device::narrow<T>(draws[i] >= threshold ? device::widen(x[at + i]) * factor : 0.0f);
    }
  }
};

}  // namespace

template <typename T>
void dropout(device::Stream& stream, T* y, const T* x, std::size_t rows, std::size_t features,
             const DropoutDraw& draw) {
  const auto threshold =
      static_cast<std::uint64_t>(static_cast<double>(draw.drop_probability) * 0x1p32);
  const Dropout<T> kernel{y,         x,          rows, features, draw.key, draw.step, draw.samples,
                          threshold, draw.factor};
  const std::size_t pieces = rows * kernel.pieces_per_row();
  const auto blocks = static_cast<unsigned>((pieces + kernel.kThreads - 1) / kernel.kThreads);
  device::launch(stream, {blocks, kernel.kThreads}, kernel);
}

template void dropout(device::Stream&, float*, const float*, std::size_t, std::size_t,
                      const DropoutDraw&);
template void dropout(device::Stream&, Float16*, const Float16*, std::size_t, std::size_t,
                      const DropoutDraw&);
template void dropout(device::Stream&, BFloat16*, const BFloat16*, std::size_t, std::size_t,
                      const DropoutDraw&);

}  // namespace horo::ops::device_kernels
