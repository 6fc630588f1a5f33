#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "collectives/device/tile_table.h"
#include "horo/base/device/float_conversion.h"
#include "horo/base/device/launch.h"
#include "horo/base/device/words.h"

namespace horo::collectives {

enum class Way { kIntoBuffer, kOutOfBuffer };

/// Moves tiles [first, last) between the tensors, of X, and the buffer, of W. Memory is read and
/// written in words of 16 bytes, of which each thread has several under way at once; tiles that are
/// not whole, and tensors that do not begin at a word, go element by element.
template <typename X, typename W, Way way>
struct MoveTiles {
  static constexpr unsigned kThreads = 256;
  // What a thread moves at once, as many words of the smaller type as make one.
  static constexpr unsigned kElements = 16 / std::min<unsigned>(std::min(sizeof(X), sizeof(W)), 2);
  static constexpr unsigned kRounds = TileTable::kTileElements / kThreads / kElements;

  TileTable table;
  std::uint32_t first, last;

  HORO_KERNEL void operator()(const device::Place& place) const {
    for (std::uint32_t tile = first + place.block; tile < last; tile += place.blocks)
      move_tile(tile, place.thread);
  }

 private:
  // The tensor that has the tile.
  HORO_KERNEL std::uint32_t find(std::uint32_t tile) const {
    std::uint32_t low = 0, high = table.tensors;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (table.first_tile[middle] <= tile ? low : high) = middle;
    }
    return low;
  }

  template <typename To, typename From>
  HORO_KERNEL To convert(From x) const {
    if constexpr (std::is_integral_v<From>) {
      return way == Way::kOutOfBuffer ? static_cast<To>(x / static_cast<From>(table.divisor)) : x;
    } else {
      const auto wide = device::widen(x);
      return device::narrow<To>(wide *
                                static_cast<std::remove_const_t<decltype(wide)>>(table.scale));
    }
  }

  template <typename To, typename From>
  HORO_KERNEL void move_whole(To* to, const From* from, unsigned thread) const {
    From in[kRounds][kElements];
    for (unsigned round = 0; round < kRounds; ++round)
      device::load_words_once(in[round], from + (round * kThreads + thread) * kElements);
    for (unsigned round = 0; round < kRounds; ++round) {
      To out[kElements];
      for (unsigned e = 0; e < kElements; ++e) out[e] = convert<To>(in[round][e]);
      device::store_words(to + (round * kThreads + thread) * kElements, out);
    }
  }

  template <typename To, typename From>
  HORO_KERNEL void move(To* to, const From* from, std::uint32_t count, bool is_aligned,
                        unsigned thread) const {
    if (count >= TileTable::kTileElements && is_aligned) return move_whole(to, from, thread);
    const std::uint32_t end = count < TileTable::kTileElements ? count : TileTable::kTileElements;
    for (std::uint32_t i = thread; i < end; i += kThreads) to[i] = convert<To>(from[i]);
  }

  HORO_KERNEL void move_tile(std::uint32_t tile, unsigned thread) const {
    const std::uint32_t t = find(tile);
    const TileTable::Tensor& tensor = table.tensor[t];
    const std::uint32_t begin = (tile - table.first_tile[t]) * TileTable::kTileElements;
    X* own = static_cast<X*>(tensor.data) + begin;
    W* buffer = static_cast<W*>(table.buffer) +
                static_cast<std::size_t>(tensor.offset) * TileTable::kAlignment + begin;
    const bool is_aligned = device::is_word_aligned(own);
    if constexpr (way == Way::kIntoBuffer)
      move(buffer, own, tensor.count - begin, is_aligned, thread);
    else
      move(own, buffer, tensor.count - begin, is_aligned, thread);
  }
};

}  // namespace horo::collectives
