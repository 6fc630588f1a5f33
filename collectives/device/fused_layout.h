#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collectives/device/memory_spans.h"
#include "collectives/device/move_tiles.h"
#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// Determines which tensors are reduced in place, the positions of the others in a fused buffer,
/// and the chunks of both. Depends only on the sizes of the tensors and on the spans, so ranks that
/// agree on both have the same chunks.
class FusedLayout {
 public:
  /// A part of the buffer: one launch packs it, one collective reduces it, and one launch unpacks
  /// it.
  struct Chunk {
    std::size_t table;                    ///< index of tables()
    std::uint32_t first_tile, last_tile;  ///< [first_tile, last_tile) of that table
    std::size_t offset, count;            ///< in the buffer, in elements
  };

  /// A part of a memory span that one collective reduces in place.
  struct Span {
    std::byte* data;
    std::size_t count;  ///< elements
  };

  /// `tensors` have one type and are in device memory that outlives the layout. They are sent as
  /// `wire` (see can_travel_as()). The tensors of `in_place` (see memory_spans()) are reduced in
  /// place, which requires that `wire` is their type. A chunk ends with the tile that makes it
  /// `chunk_bytes` or larger, or where a table is full. Throws InvalidArgument if the types are
  /// incompatible.
  FusedLayout(std::span<const TensorView> tensors, DataType wire, std::size_t chunk_bytes,
              std::span<const MemorySpan> in_place = {});

  DataType type() const { return type_; }
  DataType wire() const { return wire_; }
  /// The chunks of the tensors in the buffer.
  const std::vector<Chunk>& chunks() const { return chunks_; }
  /// The chunks of the tensors that are reduced in place.
  const std::vector<Span>& in_place() const { return in_place_; }
  const std::vector<TileTable>& tables() const { return tables_; }
  /// The position of `tensors[index]` in the buffer, in elements. Empty if the tensor is reduced in
  /// place or has no elements.
  std::optional<std::size_t> offset_of(std::size_t index) const { return offsets_[index]; }
  /// The start of this layout's part of a buffer shared by several layouts, in bytes; see
  /// ChunkPipeline::place_apart().
  std::size_t place() const { return place_; }
  void set_place(std::size_t bytes) { place_ = bytes; }
  /// The size of this layout in the buffer, alignment gaps included.
  std::size_t buffer_count() const { return buffer_count_; }
  std::size_t buffer_bytes() const { return buffer_count_ * size_of(wire_); }
  /// The size of all tensors.
  std::size_t bytes() const { return bytes_; }

 private:
  void add(void* data, std::size_t count);
  void cut(std::size_t table, std::size_t chunk_bytes);
  void cut(const MemorySpan& span, std::size_t chunk_bytes);

  DataType type_;
  DataType wire_;
  std::vector<TileTable> tables_;
  std::vector<Chunk> chunks_;
  std::vector<Span> in_place_;
  std::vector<std::optional<std::size_t>> offsets_;
  std::size_t buffer_count_ = 0;
  std::size_t place_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
