#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "collectives/device/tile_table.h"
#include "horo/base/device/float_conversion.h"
#include "horo/base/device/launch.h"
#include "horo/base/device/words.h"

namespace horo::collectives {

/// What kernels do to a tile, in a block of kThreads: elements go from `from` to `to`, which may be
/// the same. Floating point values are multiplied by `scale`, integers divided by `divisor`. Memory
/// is read and written in words of 16 bytes, of which each thread has several under way at once;
/// tiles that are not whole, and those that do not begin at a word, go element by element.
template <typename To, typename From>
struct MoveTile {
  static constexpr unsigned kThreads = 256;
  // What a thread moves at once, as many words of the smaller type as make one.
  static constexpr unsigned kElements =
      16 / std::min<unsigned>(std::min(sizeof(To), sizeof(From)), 2);
  static constexpr unsigned kRounds = TileTable::kTileElements / kThreads / kElements;

  double scale;
  std::int32_t divisor;

  /// `count`: elements from here on, of which a tile's are moved.
  HORO_KERNEL void operator()(To* to, const From* from, std::size_t count, bool is_aligned,
                              unsigned thread) const {
    if (count >= TileTable::kTileElements && is_aligned) return move_whole(to, from, thread);
    const auto end = static_cast<std::uint32_t>(
        count < TileTable::kTileElements ? count : TileTable::kTileElements);
    for (std::uint32_t i = thread; i < end; i += kThreads) to[i] = convert(from[i]);
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

  HORO_KERNEL void move_whole(To* to, const From* from, unsigned thread) const {
    From in[kRounds][kElements];
    for (unsigned round = 0; round < kRounds; ++round)
      device::load_words_once(in[round], from + (round * kThreads + thread) * kElements);
    for (unsigned round = 0; round < kRounds; ++round) {
      To out[kElements];
      for (unsigned e = 0; e < kElements; ++e) out[e] = convert(in[round][e]);
      device::store_words(to + (round * kThreads + thread) * kElements, out);
    }
  }
};

}  // namespace horo::collectives
