#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/device/tile_table.h"
#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// Where tensors lie in a fused buffer, and in which chunks it travels. Follows from their sizes
/// alone, so that ranks whose tensors have the same sizes have the same chunks.
class FusedLayout {
 public:
  /// One launch packs it, one collective reduces it, one launch unpacks it.
  struct Chunk {
    std::size_t table;                    ///< index of tables()
    std::uint32_t first_tile, last_tile;  ///< [first_tile, last_tile) of that table
    std::size_t offset, count;            ///< in the buffer, in elements
  };

  /// `tensors`, all of one type, lie in device memory, which outlives the layout, and travel as
  /// `wire` (can_travel_as()). A chunk ends with the tile with which it has `chunk_bytes` in the
  /// buffer or more, or where a table is full. Throws InvalidArgument if the types do not fit.
  FusedLayout(std::span<const TensorView> tensors, DataType wire, std::size_t chunk_bytes);

  DataType type() const { return type_; }
  DataType wire() const { return wire_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  const std::vector<TileTable>& tables() const { return tables_; }
  /// What the buffer holds, gaps included.
  std::size_t buffer_count() const { return buffer_count_; }
  std::size_t buffer_bytes() const { return buffer_count_ * size_of(wire_); }
  /// Of the tensors.
  std::size_t bytes() const { return bytes_; }

 private:
  void add(void* data, std::size_t count);
  void cut(std::size_t table, std::size_t chunk_bytes);

  DataType type_;
  DataType wire_;
  std::vector<TileTable> tables_;
  std::vector<Chunk> chunks_;
  std::size_t buffer_count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
