#pragma once

#include <cstddef>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// How several tensors are dealt to ranks: rank r gets chunk r of each tensor (see chunk_of), so
/// that who has which part of a tensor does not depend on the tensors beside it. Packed, the chunks
/// lie by rank, and for each rank by tensor.
class TensorChunks {
 public:
  /// `tensors`: one piece per tensor.
  TensorChunks(const ScatteredBuffer& tensors, int ranks);

  /// Where rank `rank`'s chunk of each tensor begins and ends among all its chunks.
  const std::vector<Range>& of_rank(int rank) const {
    return places_[static_cast<std::size_t>(rank)];
  }
  /// Elements that `rank` has of all tensors together.
  std::size_t count_of(int rank) const {
    return of_rank(rank).empty() ? 0 : of_rank(rank).back().end;
  }

  /// Copies the chunks to `packed`, which has room for all elements.
  void pack(const ScatteredBuffer& tensors, std::byte* packed) const;
  /// Copies them back.
  void unpack(const std::byte* packed, const ScatteredBuffer& tensors) const;

 private:
  std::vector<std::vector<Range>> places_;  // by rank, by tensor
};

}  // namespace horo::collectives
