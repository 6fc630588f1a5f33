#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "horo/base/data_type.h"

namespace horo::collectives {

/// Tensors of one element type that a collective treats as one logical array: their concatenation,
/// in the order given. Nothing is copied; the memory is borrowed and must outlive the collective.
/// Every tensor is a piece of its own, also where one begins in memory where the last one ends:
/// Adasum treats each by itself.
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

  /// Appends `count` elements; empty pieces are dropped.
  void add(void* data, std::size_t count) {
    if (count == 0) return;
    pieces_.push_back({static_cast<std::byte*>(data), count});
    count_ += count;
    ends_.push_back(count_);
  }

  DataType type() const { return type_; }
  std::size_t element_bytes() const { return element_bytes_; }
  std::size_t count() const { return count_; }  ///< elements, all pieces
  std::size_t bytes() const { return count_ * element_bytes_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Calls function(pointer, first, n) for each contiguous stretch of the elements [begin, end) of
  /// the logical array, in order; `first` is the stretch's offset from `begin`, n its count.
  template <typename Function>
  void for_each_stretch(std::size_t begin, std::size_t end, Function&& function) const {
    for_each_part(begin, end,
                  [&](std::size_t piece, std::size_t offset, std::size_t first, std::size_t n) {
                    function(pieces_[piece].data + offset * element_bytes_, first, n);
                  });
  }

  /// The same with function(piece, offset, first, n): the stretch begins `offset` elements into
  /// pieces()[piece].
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
  std::vector<std::size_t> ends_;  // ends_[i]: count of pieces 0 ... i
};

}  // namespace horo::collectives
