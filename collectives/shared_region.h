#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace horo::collectives {

/// Zero-initialized, page-aligned memory that all ranks of a node have mapped, possibly at
/// different addresses. The memory is released when every rank of the node has destroyed its object
/// or has ended. Killed processes therefore leave no memory behind.
class SharedRegion {
 public:
  virtual ~SharedRegion() = default;
  virtual std::span<std::byte> bytes() = 0;
};

/// Shared memory of a node, divided into one part for each rank. All parts have the same size.
class NodeBlock {
 public:
  /// `region` must hold at least bytes_per_rank bytes for each rank of the node. `own` is the index
  /// of this rank in the node.
  NodeBlock(std::unique_ptr<SharedRegion> region, int own, std::size_t bytes_per_rank)
      : region_(std::move(region)), own_(own), bytes_per_rank_(bytes_per_rank) {}

  /// Returns the address, in this process, of byte `offset` in the part of `rank`.
  std::byte* at(int rank, std::size_t offset) const {
    return region_->bytes().data() + static_cast<std::size_t>(rank) * bytes_per_rank_ + offset;
  }
  /// Returns this rank's part.
  std::span<std::byte> own() const { return {at(own_, 0), bytes_per_rank_}; }

 private:
  std::unique_ptr<SharedRegion> region_;
  int own_;
  std::size_t bytes_per_rank_;
};

}  // namespace horo::collectives
