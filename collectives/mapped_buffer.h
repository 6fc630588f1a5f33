#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// One logical array as every rank of a node has it, all of them in memory that this rank can
/// reach: the same pieces, each at one address per rank. Nothing is copied; the memory is borrowed.
class MappedBuffer {
 public:
  /// `ranks` ranks on the node, of which this one is number `own`.
  MappedBuffer(DataType type, int ranks, int own)
      : own_(static_cast<std::size_t>(own)),
        of_rank_(static_cast<std::size_t>(ranks), ScatteredBuffer(type)) {}

  /// The memory of this rank alone.
  explicit MappedBuffer(ScatteredBuffer own) : own_(0) { of_rank_.push_back(std::move(own)); }

  /// Appends `count` elements; address_of[r] is where rank r of the node has them.
  void add(std::span<std::byte* const> address_of, std::size_t count) {
    for (std::size_t r = 0; r < of_rank_.size(); ++r) of_rank_[r].add(address_of[r], count);
  }

  int ranks() const { return static_cast<int>(of_rank_.size()); }
  const ScatteredBuffer& own() const { return of_rank_[own_]; }
  std::size_t own_index() const { return own_; }

  /// The elements `range` as a buffer of their own, over the same memory.
  MappedBuffer part(Range range) const {
    MappedBuffer part(own().type(), ranks(), static_cast<int>(own_));
    for_each_stretch(range.begin, range.end,
                     [&](std::span<std::byte* const> addresses, std::size_t, std::size_t n) {
                       part.add(addresses, n);
                     });
    return part;
  }

  /// Calls function(addresses, first, n) for each contiguous stretch of the elements [begin, end)
  /// of the logical array, in order; addresses[r] is where rank r of the node has its n elements,
  /// `first` the stretch's offset from `begin`.
  template <typename Function>
  void for_each_stretch(std::size_t begin, std::size_t end, Function&& function) const {
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

}  // namespace horo::collectives
