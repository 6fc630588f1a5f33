#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collectives/device/memory_spans.h"
#include "collectives/device/tile_table.h"
#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// Which tensors travel where they lie, where the others lie in a fused buffer, and in which chunks
/// either travel. Follows from their sizes and the spans alone, so that ranks whose tensors have
/// the same sizes, and the same spans, have the same chunks.
class FusedLayout {
 public:
  /// One launch packs it, one collective reduces it, one launch unpacks it.
  struct Chunk {
    std::size_t table;                    ///< index of tables()
    std::uint32_t first_tile, last_tile;  ///< [first_tile, last_tile) of that table
    std::size_t offset, count;            ///< in the buffer, in elements
  };

  /// Part of a span, which one collective reduces in place.
  struct Stretch {
    std::byte* data;
    std::size_t count;  ///< elements
  };

  /// `tensors`, all of one type, lie in device memory, which outlives the layout, and travel as
  /// `wire` (can_travel_as()); those of `in_place` (memory_spans()), which are as they travel,
  /// where they are. A chunk ends with the tile with which it has `chunk_bytes` or more, or where a
  /// table is full. Throws InvalidArgument if the types do not fit.
  FusedLayout(std::span<const TensorView> tensors, DataType wire, std::size_t chunk_bytes,
              std::span<const MemorySpan> in_place = {});

  DataType type() const { return type_; }
  DataType wire() const { return wire_; }
  /// Of the tensors in the buffer.
  const std::vector<Chunk>& chunks() const { return chunks_; }
  /// Of the others.
  const std::vector<Stretch>& in_place() const { return in_place_; }
  const std::vector<TileTable>& tables() const { return tables_; }
  /// Where in the buffer `tensors[index]` begins, in elements; nothing: it travels where it is, or
  /// has no elements.
  std::optional<std::size_t> offset_of(std::size_t index) const { return offsets_[index]; }
  /// Where its own part of a buffer begins that layouts share, in bytes; see
  /// ChunkPipeline::place_apart().
  std::size_t place() const { return place_; }
  void set_place(std::size_t bytes) { place_ = bytes; }
  /// What the buffer holds, gaps included.
  std::size_t buffer_count() const { return buffer_count_; }
  std::size_t buffer_bytes() const { return buffer_count_ * size_of(wire_); }
  /// Of the tensors.
  std::size_t bytes() const { return bytes_; }

 private:
  void add(void* data, std::size_t count);
  void cut(std::size_t table, std::size_t chunk_bytes);
  void cut(const MemorySpan& span, std::size_t chunk_bytes);

  DataType type_;
  DataType wire_;
  std::vector<TileTable> tables_;
  std::vector<Chunk> chunks_;
  std::vector<Stretch> in_place_;
  std::vector<std::optional<std::size_t>> offsets_;
  std::size_t buffer_count_ = 0;
  std::size_t place_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
