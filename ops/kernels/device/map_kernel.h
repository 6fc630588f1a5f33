#pragma once

#include <algorithm>
#include <cstddef>

#include "ops/kernels/device/pieces.h"

namespace horo::ops::device_kernels {

/// out[i] = function({in[0][i], in[1][i], ...}), in float, for kInputs arrays of In; any of them
/// may be `out` if their types are the same.
template <typename Function, typename Out, typename In, int kInputs>
struct Map {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kCount = std::max(kPerWord<Out>, kInputs > 0 ? kPerWord<In> : 1);
  static constexpr std::size_t kPerBlock = kThreads * kCount;
  static constexpr int kArrays = std::max(kInputs, 1);

  Function function;
  Out* out;
  const In* in[kArrays];
  std::size_t count;

  HORO_KERNEL void operator()(const device::Place& place) const {
    const std::size_t begin = place.block * kPerBlock;
    const std::size_t end = begin + kPerBlock < count ? begin + kPerBlock : count;
    bool aligned = device::is_word_aligned(out);
    for (int a = 0; a < kInputs; ++a) aligned = aligned && device::is_word_aligned(in[a]);
    for_each_piece<kCount>(begin, end, aligned, place.thread, kThreads,
                           [&](auto piece, std::size_t at) { apply(piece, at); });
  }

  static void launch(device::Stream& stream, const Map& map) {
    const auto blocks = static_cast<unsigned>((map.count + kPerBlock - 1) / kPerBlock);
    device::launch(stream, {blocks, kThreads}, map);
  }

 private:
  template <unsigned kSize>
  HORO_KERNEL void apply(Piece<kSize>, std::size_t at) const {
    float values[kArrays][kSize] = {}, result[kSize];
    for (int a = 0; a < kInputs; ++a) load_piece(values[a], in[a] + at);
    for (unsigned e = 0; e < kSize; ++e) {
      float x[kArrays];
      for (int a = 0; a < kArrays; ++a) x[a] = values[a][e];
      result[e] = function(x);
    }
    store_piece(out + at, result);
  }
};

}  // namespace horo::ops::device_kernels
