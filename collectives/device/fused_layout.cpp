#include "collectives/device/fused_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/device/move_tiles.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {
namespace {

// The largest number of elements in one table entry. It is a multiple of the tile size and fits
// into 32 bits. A larger tensor takes several entries.
constexpr std::size_t kMostOfOneEntry = std::size_t{1} << 31;

std::size_t offset_of_tile(const TileTable& table, std::uint32_t tile) {
  const auto* after = std::upper_bound(table.first_tile, table.first_tile + table.tensors, tile);
  const auto t = static_cast<std::size_t>(after - table.first_tile) - 1;
  return std::size_t{table.tensor[t].offset} * TileTable::kAlignment +
         std::size_t{tile - table.first_tile[t]} * TileTable::kTileElements;
}

}  // namespace

FusedLayout::FusedLayout(std::span<const TensorView> tensors, DataType wire,
                         std::size_t chunk_bytes, std::span<const MemorySpan> in_place)
    : type_(tensors.empty() ? wire : tensors.front().type()), wire_(wire) {
  HORO_CHECK(
      can_travel_as(type_, wire_),
      fmt::format(
          "tensors of {} cannot be sent as {}; use their own type, or float16 or bfloat16 for "
          "float32",
          name_of(type_), name_of(wire_)));
  HORO_CHECK(
      in_place.empty() || type_ == wire_,
      fmt::format("tensors of {} cannot be sent as {} in place", name_of(type_), name_of(wire_)));
  // The spans are disjoint and in the order of the tensors, so one iterator follows the tensors.
  auto span = in_place.begin();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const TensorView& tensor = tensors[t];
    HORO_CHECK(tensor.type() == type_,
               fmt::format("tensors of one bucket must have one type: found both {} and {}",
                           name_of(type_), name_of(tensor.type())));
    bytes_ += tensor.bytes();
    if (span != in_place.end() && t == span->last) ++span;
    auto& offset = offsets_.emplace_back();
    if (tensor.count() == 0 || (span != in_place.end() && t >= span->first)) continue;
    offset = buffer_count_;
    auto* data = static_cast<std::byte*>(tensor.data());
    for (std::size_t done = 0; done < tensor.count(); done += kMostOfOneEntry)
      add(data + done * size_of(type_), std::min(kMostOfOneEntry, tensor.count() - done));
  }
  for (const MemorySpan& whole : in_place) cut(whole, chunk_bytes);
  for (std::size_t table = 0; table < tables_.size(); ++table) cut(table, chunk_bytes);
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    chunks_[c].count =
        (c + 1 < chunks_.size() ? chunks_[c + 1].offset : buffer_count_) - chunks_[c].offset;
}

// Appends an entry to the last table. Starts a new table if the last one is full. Pads the entry in
// the buffer, so that the next entry is aligned.
void FusedLayout::add(void* data, std::size_t count) {
  if (tables_.empty() || tables_.back().tensors == TileTable::kMaxTensors) tables_.emplace_back();
  TileTable& table = tables_.back();
  const auto tiles = (count + TileTable::kTileElements - 1) / TileTable::kTileElements;
  table.tensor[table.tensors] = {data, static_cast<std::uint32_t>(count),
                                 static_cast<std::uint32_t>(buffer_count_ / TileTable::kAlignment)};
  ++table.tensors;
  table.first_tile[table.tensors] =
      table.first_tile[table.tensors - 1] + static_cast<std::uint32_t>(tiles);
  buffer_count_ += round_up(count, TileTable::kAlignment);
}

// The constructor later computes the size of each chunk from the offset of the next chunk.
void FusedLayout::cut(std::size_t table, std::size_t chunk_bytes) {
  const TileTable& tiles = tables_[table];
  std::size_t begin = 0;
  for (std::uint32_t tile = 0; tile < tiles.tiles(); ++tile) {
    const std::size_t offset = offset_of_tile(tiles, tile);
    if (tile == 0 || (offset - begin) * size_of(wire_) >= chunk_bytes) {
      chunks_.push_back({table, tile, tile, offset, 0});
      begin = offset;
    }
    chunks_.back().last_tile = tile + 1;
  }
}

void FusedLayout::cut(const MemorySpan& span, std::size_t chunk_bytes) {
  const std::size_t tile_bytes = TileTable::kTileElements * size_of(type_);
  const std::size_t tiles =
      std::max<std::size_t>(1, chunk_bytes / tile_bytes + (chunk_bytes % tile_bytes == 0 ? 0 : 1));
  // If chunk_bytes is very large, the minimum prevents an overflow of the product.
  const std::size_t most = std::min(tiles, span.count / TileTable::kTileElements + 1) *
                           std::size_t{TileTable::kTileElements};
  auto* data = static_cast<std::byte*>(span.data);
  spans_.push_back({data, span.count});
  for (std::size_t done = 0; done < span.count; done += most)
    in_place_.push_back({data + done * size_of(type_), std::min(most, span.count - done)});
}

}  // namespace horo::collectives
