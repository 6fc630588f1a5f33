#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/device/launch.h"

namespace horo::ops::device_kernels {

/// Which tensors a launch works on, by value in its arguments: one launch for all of a model's, and
/// nothing that has to be copied to the device first. `Entry` is what there is to know of one
/// tensor, with its `count` of elements.
///
/// A tensor is worked on in tiles of kTileElements elements, the last one of which may be smaller;
/// tiles are numbered through all tensors.
template <typename Entry>
struct TensorTable {
  static constexpr std::size_t kTileElements = 8192;
  /// What the arguments of a launch have room for, beside 256 bytes of others.
  static constexpr std::uint32_t kMaxTensors = (32764 - 256 - 8) / (sizeof(Entry) + 4);

  std::uint32_t tensors = 0;
  std::uint32_t first_tile[kMaxTensors + 1] = {};  ///< [tensors]: how many tiles there are
  Entry entry[kMaxTensors];

  static std::uint32_t tiles_of(std::size_t count) {
    return static_cast<std::uint32_t>((count + kTileElements - 1) / kTileElements);
  }
  std::uint32_t tiles() const { return first_tile[tensors]; }
  /// The tensor that has the tile.
  HORO_KERNEL std::uint32_t find(std::uint32_t tile) const {
    std::uint32_t low = 0, high = tensors;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (first_tile[middle] <= tile ? low : high) = middle;
    }
    return low;
  }
};

/// The elements of a tile: [begin, end) of its tensor.
struct TileRange {
  std::size_t begin, end;
};

template <typename Entry>
HORO_KERNEL TileRange range_of(const TensorTable<Entry>& table, std::uint32_t tensor,
                               std::uint32_t tile) {
  constexpr std::size_t kTile = TensorTable<Entry>::kTileElements;
  const std::size_t begin = (tile - table.first_tile[tensor]) * kTile;
  const std::size_t count = table.entry[tensor].count;
  return {begin, begin + kTile < count ? begin + kTile : count};
}

/// Calls use(table) for tables that have all the tensors, in order, as few as hold them. Tensors
/// without elements are left out.
template <typename Entry, typename Use>
void for_each_table(std::span<const Entry> entries, Use&& use) {
  TensorTable<Entry> table;
  const auto flush = [&] {
    if (table.tensors > 0) use(static_cast<const TensorTable<Entry>&>(table));
    table.tensors = 0;
  };
  for (const Entry& entry : entries) {
    if (entry.count == 0) continue;
    if (table.tensors == TensorTable<Entry>::kMaxTensors) flush();
    const std::uint32_t t = table.tensors++;
    table.entry[t] = entry;
    table.first_tile[t + 1] = table.first_tile[t] + table.tiles_of(entry.count);
  }
  flush();
}

}  // namespace horo::ops::device_kernels
