#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/device/launch.h"

namespace horo::ops::device_kernels {

/// The tensors of a launch, passed by value in its arguments. One launch then handles all tensors
/// of a model, and no table has to be copied to the device first. `Entry` describes one tensor and
/// has a `count` of elements.
///
/// A tensor consists of tiles of kTileElements elements; its last tile may be smaller. The tiles of
/// all tensors are numbered consecutively.
template <typename Entry>
struct TensorTable {
  static constexpr std::size_t kTileElements = 8192;
  /// The space for the table in the arguments of a launch, with 256 bytes left for other arguments.
  static constexpr std::uint32_t kMaxTensors = (32764 - 256 - 8) / (sizeof(Entry) + 4);

  std::uint32_t tensors = 0;
  std::uint32_t first_tile[kMaxTensors + 1] = {};  ///< [tensors]: how many tiles there are
  Entry entry[kMaxTensors];

  static std::uint32_t tiles_of(std::size_t count) {
    return static_cast<std::uint32_t>((count + kTileElements - 1) / kTileElements);
  }
  std::uint32_t tiles() const { return first_tile[tensors]; }
  /// The tensor to which the tile belongs.
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

/// Distributes the tensors, in order, over as few tables as possible, and calls use(table) for
/// each. Skips tensors without elements.
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
