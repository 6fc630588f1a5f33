#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace horo::collectives {

/// Zero-initialized, page-aligned memory that all ranks of a node have mapped, possibly at
/// different addresses. The destructor of the last rank releases it. A killed process leaves
/// nothing behind.
class SharedRegion {
 public:
  virtual ~SharedRegion() = default;
  virtual std::span<std::byte> bytes() = 0;
};

/// Shared memory of a node with one part of equal size for each rank. Immutable.
class NodeBlock {
 public:
  /// `region` holds at least ranks * bytes_per_rank bytes. `own`: the index of this rank in the
  /// node.
  NodeBlock(std::unique_ptr<SharedRegion> region, int own, std::size_t bytes_per_rank)
      : region_(std::move(region)), own_(own), bytes_per_rank_(bytes_per_rank) {}

  /// The address, in this process, of byte `offset` of the part of `rank`.
  std::byte* at(int rank, std::size_t offset) const {
    return region_->bytes().data() + static_cast<std::size_t>(rank) * bytes_per_rank_ + offset;
  }
  /// This rank's part.
  std::span<std::byte> own() const { return {at(own_, 0), bytes_per_rank_}; }

 private:
  std::unique_ptr<SharedRegion> region_;
  int own_;
  std::size_t bytes_per_rank_;
};

}  // namespace horo::collectives
