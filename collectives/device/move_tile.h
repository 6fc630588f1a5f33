#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/device/move_tiles.h"
#include "horo/device/float_conversion.h"
#include "horo/device/launch.h"
#include "horo/device/vector_access.h"

// Private to the kernels of collectives/device.

namespace horo::collectives {

/// Returns the index of the tensor that contains the tile, by binary search.
HORO_KERNEL inline std::uint32_t find_tensor(const TileTable& table, std::uint32_t tile) {
  std::uint32_t low = 0, high = table.tensors;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (table.first_tile[middle] <= tile ? low : high) = middle;
  }
  return low;
}

/// Copies and scales the elements of a tile in one block of kThreads threads. `from` and `to` may
/// be equal. Floating point values are multiplied by `scale`; integers are divided by `divisor`.
/// Aligned tiles are accessed in words: in each round, the threads access adjacent words, and each
/// thread loads the words of kAtOnce rounds before it stores the first. Elements after the last
/// whole word, and tiles that are not aligned, are accessed one by one.
template <typename To, typename From>
struct MoveTile {
  static constexpr unsigned kThreads = 256;
  // The number of elements in a word. A word of the larger type has 16 bytes.
  static constexpr unsigned kElements = 16 / std::max<unsigned>(sizeof(To), sizeof(From));
  static constexpr unsigned kWords = TileTable::kTileElements / kElements;
  static constexpr unsigned kRounds = kWords / kThreads;
  // More rounds would take more registers than full occupancy leaves to a thread.
  static constexpr unsigned kAtOnce = std::min(kRounds, 8u);
  // The number of elements that a thread loads one by one before it stores the first.
  static constexpr unsigned kBatch = 8;
  static_assert(kElements <= kThreads && kRounds * kThreads == kWords && kRounds % kAtOnce == 0);

  double scale;
  std::int32_t divisor;

  // `count` is the number of elements from `from` to the end of the tensor or range, of which this
  // call handles at most one tile. `is_aligned` is whether both addresses are aligned to 16 bytes.
  HORO_KERNEL void operator()(To* to, const From* from, std::size_t count, bool is_aligned,
                              unsigned thread) const {
    const unsigned end =
        count < TileTable::kTileElements ? static_cast<unsigned>(count) : TileTable::kTileElements;
    if (!is_aligned) return move_elements(to, from, end, thread);
    if (end == TileTable::kTileElements) return move_words<true>(to, from, kWords, thread);
    move_words<false>(to, from, end / kElements, thread);
    const unsigned last = end / kElements * kElements + thread;
    if (last < end) to[last] = convert(from[last]);
  }

 private:
  HORO_KERNEL To convert(From x) const {
    if constexpr (std::is_integral_v<From>) {
      return divisor == 1 ? x : static_cast<To>(x / divisor);
    } else {
      const auto wide = device::widen(x);
      return device::narrow<To>(wide * static_cast<std::remove_const_t<decltype(wide)>>(scale));
    }
  }

  // If kIsWhole is true, `words` must be kWords.
  template <bool kIsWhole>
  HORO_KERNEL void move_words(To* to, const From* from, unsigned words, unsigned thread) const {
    for (unsigned first = thread; first < words; first += kAtOnce * kThreads) {
      From in[kAtOnce][kElements] = {};
      for (unsigned round = 0; round < kAtOnce; ++round) {
        const unsigned word = first + round * kThreads;
        if (kIsWhole || word < words) device::load_vectors_once(in[round], from + word * kElements);
      }
      for (unsigned round = 0; round < kAtOnce; ++round) {
        const unsigned word = first + round * kThreads;
        To out[kElements];
        for (unsigned e = 0; e < kElements; ++e) out[e] = convert(in[round][e]);
        if (kIsWhole || word < words) device::store_vectors(to + word * kElements, out);
      }
    }
  }

  HORO_KERNEL void move_elements(To* to, const From* from, unsigned end, unsigned thread) const {
    for (unsigned begin = thread; begin < end; begin += kBatch * kThreads) {
      From in[kBatch] = {};
      for (unsigned b = 0; b < kBatch; ++b)
        if (begin + b * kThreads < end) in[b] = from[begin + b * kThreads];
      for (unsigned b = 0; b < kBatch; ++b)
        if (begin + b * kThreads < end) to[begin + b * kThreads] = convert(in[b]);
    }
  }
};

}  // namespace horo::collectives
