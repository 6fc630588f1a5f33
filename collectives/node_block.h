#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collectives/shared_region.h"

namespace horo::collectives {

/// Memory of one size for each rank of a node, all of it mapped by all of them. Immutable.
class NodeBlock {
 public:
  /// `region` holds at least ranks * bytes_per_rank bytes; this rank is number `own` of the node.
  NodeBlock(std::unique_ptr<SharedRegion> region, int own, std::size_t bytes_per_rank)
      : region_(std::move(region)), own_(own), bytes_per_rank_(bytes_per_rank) {}

  /// Where this process sees byte `offset` of the part of `rank`.
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
