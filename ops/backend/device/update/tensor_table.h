#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/device/launch.h"

namespace horo::ops::device_kernels {

/// The sizes in bytes of the arguments of a launch that contain a table. A launch copies all its
/// arguments, also the unused part of a table. The shorter size is the limit of CUDA before 12.1.
inline constexpr std::size_t kShortArguments = 4096;
inline constexpr std::size_t kLongArguments = 32764;

/// The tensors of a launch, passed by value in its arguments. One launch then handles all tensors
/// of a model, and no table has to be copied to the device first. `Entry` describes one tensor and
/// has a `count` of elements. All arguments of the launch together have kArgumentBytes.
///
/// A tensor consists of tiles of kTileElements elements; its last tile may be smaller. The tiles of
/// all tensors are numbered consecutively.
template <typename Entry, std::size_t kArgumentBytes = kLongArguments>
struct TensorTable {
  static constexpr std::size_t kTileElements = 8192;
  /// The space for the table in the arguments of a launch, with 256 bytes left for other arguments.
  static constexpr std::uint32_t kMaxTensors = (kArgumentBytes - 256 - 8) / (sizeof(Entry) + 4);

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

template <typename Table>
HORO_KERNEL TileRange range_of(const Table& table, std::uint32_t tensor, std::uint32_t tile) {
  constexpr std::size_t kTile = Table::kTileElements;
  const std::size_t begin = (tile - table.first_tile[tensor]) * kTile;
  const std::size_t count = table.entry[tensor].count;
  return {begin, begin + kTile < count ? begin + kTile : count};
}

/// Distributes the tensors, in order, over as few tables of this type as possible, and calls
/// use(table) for each. Skips tensors without elements.
template <typename Table, typename Entry, typename Use>
void for_each_table_of(std::span<const Entry> entries, Use& use) {
  Table table;
  const auto flush = [&] {
    if (table.tensors > 0) use(static_cast<const Table&>(table));
    table.tensors = 0;
  };
  for (const Entry& entry : entries) {
    if (entry.count == 0) continue;
    if (table.tensors == Table::kMaxTensors) flush();
    const std::uint32_t t = table.tensors++;
    table.entry[t] = entry;
    table.first_tile[t + 1] = table.first_tile[t] + table.tiles_of(entry.count);
  }
  flush();
}

/// The same with a short table if it holds all tensors, and otherwise with long ones.
template <typename Entry, typename Use>
void for_each_table(std::span<const Entry> entries, Use&& use) {
  using Short = TensorTable<Entry, kShortArguments>;
  if (entries.size() <= Short::kMaxTensors)
    for_each_table_of<Short>(entries, use);
  else
    for_each_table_of<TensorTable<Entry>>(entries, use);
}

}  // namespace horo::ops::device_kernels
