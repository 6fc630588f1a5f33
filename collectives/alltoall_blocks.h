#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace horo::collectives {

/// The blocks of an alltoall as one rank sees them (see Collectives::alltoall). The memory is
/// borrowed.
class AlltoallBlocks {
 public:
  /// `input` holds the blocks for rank 0, 1, ... one after the other, `output` has their places.
  AlltoallBlocks(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                 std::span<std::byte> output, std::span<const std::size_t> bytes_from);

  /// What goes to `rank`.
  std::span<const std::byte> to(int rank) const { return to_[static_cast<std::size_t>(rank)]; }
  /// Where that which comes from `rank` is put.
  std::span<std::byte> from(int rank) const { return from_[static_cast<std::size_t>(rank)]; }

  /// Copies the block that `rank`, this rank, has for itself.
  void copy_own(int rank) const;
  /// Leaves nothing to exchange with `rank`.
  void drop(int rank);

 private:
  std::vector<std::span<const std::byte>> to_;
  std::vector<std::span<std::byte>> from_;
};

}  // namespace horo::collectives
