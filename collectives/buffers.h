#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "collectives/chunks.h"
#include "horo/base/data_type.h"

namespace horo::collectives {

/// Grows `memory` to `bytes` bytes if it is smaller, and never shrinks it. Returns the address of
/// the memory. Callers use this function for staging memory that they keep between calls.
inline std::byte* ensure_size(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

/// Tensors of one element type that a collective treats as one logical array. The array is the
/// concatenation of the tensors in the order of the add() calls. This class neither copies nor owns
/// the memory of the tensors. Each tensor is a separate piece, even if it starts where the previous
/// one ends, because Adasum treats each tensor separately.
class ScatteredBuffer {
 public:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t count = 0;  ///< elements
  };

  explicit ScatteredBuffer(DataType type) : type_(type), element_bytes_(size_of(type)) {}
  ScatteredBuffer(DataType type, void* data, std::size_t count) : ScatteredBuffer(type) {
    add(data, count);
  }

  /// Appends a piece of `count` elements. Does nothing if `count` is 0.
  void add(void* data, std::size_t count) {
    if (count == 0) return;
    pieces_.push_back({static_cast<std::byte*>(data), count});
    count_ += count;
    ends_.push_back(count_);
  }

  DataType type() const { return type_; }
  std::size_t element_bytes() const { return element_bytes_; }
  std::size_t count() const { return count_; }  ///< elements of all pieces
  std::size_t bytes() const { return count_ * element_bytes_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Calls function(pointer, first, n) for the part of each piece that lies in the elements [begin,
  /// end), in order. `pointer` is the address of the part, `first` is the offset of the part from
  /// `begin` in elements, and n is the number of elements of the part.
  template <typename Function>
  void for_each_span(std::size_t begin, std::size_t end, Function&& function) const {
    for_each_part(begin, end,
                  [&](std::size_t piece, std::size_t offset, std::size_t first, std::size_t n) {
                    function(pieces_[piece].data + offset * element_bytes_, first, n);
                  });
  }

  /// Like for_each_span(), but calls function(piece, offset, first, n). The part starts at element
  /// `offset` of pieces()[piece].
  template <typename Function>
  void for_each_part(std::size_t begin, std::size_t end, Function&& function) const {
    if (begin >= end) return;
    auto piece = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) -
                                          ends_.begin());
    for (std::size_t at = begin; at < end; ++piece) {
      const std::size_t piece_begin = ends_[piece] - pieces_[piece].count;
      const std::size_t n = std::min(end, ends_[piece]) - at;
      function(piece, at - piece_begin, at - begin, n);
      at += n;
    }
  }

 private:
  DataType type_;
  std::size_t element_bytes_;
  std::size_t count_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> ends_;  // ends_[i] is the total count of pieces 0 to i
};

/// Returns the address of the elements `range` if all of them are in one piece. Otherwise, and for
/// an empty range, returns null.
std::byte* contiguous_address(const ScatteredBuffer& buffer, Range range);
/// Copies the elements `range` of the buffer to `to`.
void gather(const ScatteredBuffer& buffer, Range range, std::byte* to);
/// Copies the memory at `from` to the elements `range` of the buffer.
void scatter(const ScatteredBuffer& buffer, Range range, const std::byte* from);
/// Returns a buffer that consists of the elements `range`, over the same memory.
ScatteredBuffer part_of(const ScatteredBuffer& buffer, Range range);

/// The buffers of the ranks of a node for one collective, all mapped into this process. The pieces
/// of all buffers have the same sizes, so each piece has one address per rank. This class neither
/// copies nor owns the memory.
class MappedBuffer {
 public:
  /// `ranks` is the number of ranks of the node. `own` is the index of this rank in the node.
  MappedBuffer(DataType type, int ranks, int own)
      : own_(static_cast<std::size_t>(own)),
        of_rank_(static_cast<std::size_t>(ranks), ScatteredBuffer(type)) {}

  /// Wraps the buffer of this rank alone, so ranks() is 1.
  explicit MappedBuffer(ScatteredBuffer own) : own_(0) { of_rank_.push_back(std::move(own)); }

  /// Appends a piece of `count` elements. address_of[r] is its address in the buffer of the rank
  /// with index r in the node.
  void add(std::span<std::byte* const> address_of, std::size_t count) {
    for (std::size_t r = 0; r < of_rank_.size(); ++r) of_rank_[r].add(address_of[r], count);
  }

  int ranks() const { return static_cast<int>(of_rank_.size()); }
  const ScatteredBuffer& own() const { return of_rank_[own_]; }
  std::size_t own_index() const { return own_; }

  /// Returns a buffer that consists of the elements `range`, over the same memory.
  MappedBuffer part(Range range) const {
    MappedBuffer part(own().type(), ranks(), static_cast<int>(own_));
    for_each_span(range.begin, range.end,
                  [&](std::span<std::byte* const> addresses, std::size_t, std::size_t n) {
                    part.add(addresses, n);
                  });
    return part;
  }

  /// Like ScatteredBuffer::for_each_span(), but calls function(addresses, first, n). addresses[r]
  /// is the address of the part in the buffer of the rank with index r in the node.
  template <typename Function>
  void for_each_span(std::size_t begin, std::size_t end, Function&& function) const {
    std::vector<std::byte*> addresses(of_rank_.size());
    own().for_each_part(
        begin, end, [&](std::size_t piece, std::size_t offset, std::size_t first, std::size_t n) {
          for (std::size_t r = 0; r < of_rank_.size(); ++r)
            addresses[r] = of_rank_[r].pieces()[piece].data + offset * own().element_bytes();
          function(std::span<std::byte* const>(addresses), first, n);
        });
  }

 private:
  std::size_t own_;
  std::vector<ScatteredBuffer> of_rank_;
};

/// The blocks that one rank sends and receives in an alltoall (see Collectives::alltoall). This
/// class does not own the memory of the blocks.
class AlltoallBlocks {
 public:
  /// `input` holds the blocks for rank 0, 1, ... one after the other. `output` has space for the
  /// blocks from rank 0, 1, ... in the same way.
  AlltoallBlocks(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                 std::span<std::byte> output, std::span<const std::size_t> bytes_from);

  /// The block to send to `rank`.
  std::span<const std::byte> to(int rank) const { return to_[static_cast<std::size_t>(rank)]; }
  /// The memory for the block from `rank`.
  std::span<std::byte> from(int rank) const { return from_[static_cast<std::size_t>(rank)]; }

  /// Copies the block of this rank for itself from the input to the output. `rank` is the number of
  /// this rank.
  void copy_own(int rank) const;
  /// Makes the blocks to and from `rank` empty. An exchange sends no message for an empty block, so
  /// `rank` must also drop its blocks to and from this rank.
  void drop(int rank);

 private:
  std::vector<std::span<const std::byte>> to_;
  std::vector<std::span<std::byte>> from_;
};

}  // namespace horo::collectives
