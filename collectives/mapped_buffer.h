#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

  /// Appends `count` elements; address_of[r] is where rank r of the node has them.
  void add(std::span<std::byte* const> address_of, std::size_t count) {
    for (std::size_t r = 0; r < of_rank_.size(); ++r) of_rank_[r].add(address_of[r], count);
  }

  const ScatteredBuffer& own() const { return of_rank_[own_]; }

  /// Calls function(addresses, n) for each contiguous stretch of the elements [begin, end) of the
  /// logical array, in order; addresses[r] is where rank r of the node has its n elements.
  template <typename Function>
  void for_each_stretch(std::size_t begin, std::size_t end, Function&& function) const {
    std::vector<std::byte*> addresses(of_rank_.size());
    own().for_each_part(
        begin, end, [&](std::size_t piece, std::size_t offset, std::size_t, std::size_t n) {
          for (std::size_t r = 0; r < of_rank_.size(); ++r)
            addresses[r] = of_rank_[r].pieces()[piece].data + offset * own().element_bytes();
          function(std::span<std::byte* const>(addresses), n);
        });
  }

 private:
  std::size_t own_;
  std::vector<ScatteredBuffer> of_rank_;
};

}  // namespace horo::collectives
