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

/// Divides tensors into chunks, each of which one collective reduces. The tensors of given memory
/// spans are reduced in place. The other tensors get positions in a fused buffer. The chunks depend
/// only on the type and the sizes of the tensors, the wire type, the tensors of the spans, and the
/// chunk size. Ranks on which these are equal have the same chunks.
class FusedLayout {
 public:
  /// A part of the buffer that one launch packs and one collective reduces.
  struct Chunk {
    std::size_t table;                    ///< index of tables()
    std::uint32_t first_tile, last_tile;  ///< [first_tile, last_tile) of that table
    std::size_t offset, count;            ///< in the part of this layout, in elements
  };

  /// A memory span, or a chunk of one, that one collective reduces in place.
  struct Span {
    std::byte* data;
    std::size_t count;  ///< elements
  };

  /// `tensors` must have one type and be in device memory that stays valid while the layout is in
  /// use. They are sent as `wire` (see can_travel_as()). The tensors of `in_place` (see
  /// memory_spans()) are reduced in place. If there are any, `wire` must be the type of the
  /// tensors. A chunk ends after the tile with which it reaches `chunk_bytes`, or at the end of its
  /// table or span. Throws InvalidArgument if the types do not meet these conditions.
  FusedLayout(std::span<const TensorView> tensors, DataType wire, std::size_t chunk_bytes,
              std::span<const MemorySpan> in_place = {});

  DataType type() const { return type_; }
  DataType wire() const { return wire_; }
  /// The chunks of the tensors that are packed into the buffer.
  const std::vector<Chunk>& chunks() const { return chunks_; }
  /// The memory spans that are reduced in place.
  const std::vector<Span>& spans() const { return spans_; }
  /// The same, cut into chunks. Chunks let work on one part of a span overlap with the collective
  /// of another part.
  const std::vector<Span>& in_place() const { return in_place_; }
  const std::vector<TileTable>& tables() const { return tables_; }
  /// The position of `tensors[index]` in the part of the buffer that this layout uses, in elements.
  /// Empty if the tensor is reduced in place or has no elements.
  std::optional<std::size_t> offset_of(std::size_t index) const { return offsets_[index]; }
  /// The start of this layout's part of the buffer, in bytes. It is 0 until set_place() is called;
  /// see ChunkPipeline::place_apart().
  std::size_t place() const { return place_; }
  void set_place(std::size_t bytes) { place_ = bytes; }
  /// The number of elements of this layout in the buffer, including alignment gaps.
  std::size_t buffer_count() const { return buffer_count_; }
  std::size_t buffer_bytes() const { return buffer_count_ * size_of(wire_); }
  /// The size of all tensors in bytes, including the tensors that are reduced in place.
  std::size_t bytes() const { return bytes_; }

 private:
  void add(void* data, std::size_t count);
  void cut(std::size_t table, std::size_t chunk_bytes);
  void cut(const MemorySpan& span, std::size_t chunk_bytes);

  DataType type_;
  DataType wire_;
  std::vector<TileTable> tables_;
  std::vector<Chunk> chunks_;
  std::vector<Span> spans_, in_place_;
  std::vector<std::optional<std::size_t>> offsets_;
  std::size_t buffer_count_ = 0;
  std::size_t place_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
