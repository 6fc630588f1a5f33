#pragma once

#include <cstdint>

#include "collectives/device/move_tile.h"
#include "collectives/device/tile_table.h"
#include "horo/base/device/launch.h"

namespace horo::collectives {

enum class Way { kIntoBuffer, kOutOfBuffer };

/// Moves tiles between a table's tensors, of X, and the buffer, of W, a block each at a time.
template <typename X, typename W, Way way>
struct MoveTiles {
  static constexpr unsigned kThreads = MoveTile<X, W>::kThreads;

  TileMove move;

  HORO_KERNEL void operator()(const device::Place& place, const TileTable& table) const {
    for (std::uint32_t tile = move.first + place.block; tile < move.last; tile += place.blocks)
      move_tile(table, tile, place.thread);
  }

 private:
  // The tensor that has the tile.
  HORO_KERNEL static std::uint32_t find(const TileTable& table, std::uint32_t tile) {
    std::uint32_t low = 0, high = table.tensors;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (table.first_tile[middle] <= tile ? low : high) = middle;
    }
    return low;
  }

  HORO_KERNEL void move_tile(const TileTable& table, std::uint32_t tile, unsigned thread) const {
    const std::uint32_t t = find(table, tile);
    const TileTable::Tensor& tensor = table.tensor[t];
    const std::uint32_t begin = (tile - table.first_tile[t]) * TileTable::kTileElements;
    X* own = static_cast<X*>(tensor.data) + begin;
    W* buffer = static_cast<W*>(move.buffer) +
                static_cast<std::size_t>(tensor.offset) * TileTable::kAlignment + begin;
    const bool is_aligned = device::is_word_aligned(own);
    if constexpr (way == Way::kIntoBuffer)
      MoveTile<W, X>{move.scale, 1}(buffer, own, tensor.count - begin, is_aligned, thread);
    else
      MoveTile<X, W>{move.scale, move.divisor}(own, buffer, tensor.count - begin, is_aligned,
                                               thread);
  }
};

}  // namespace horo::collectives
