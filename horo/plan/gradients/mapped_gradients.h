#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/shared_region.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"

namespace horo::plan {

/// The blocks of node memory (collectives::NodeBlock) that the ranks of a Context have allocated.
/// All ranks add the same blocks in the same order, so a block has the same number on all ranks.
/// Does not own the blocks. Thread-safe.
class ArenaTable {
 public:
  /// An offset in this rank's part of a block. Block 0 means that the memory is in no block.
  struct Location {
    std::uint64_t block = 0;
    std::uint64_t offset = 0;
  };

  void add(const std::shared_ptr<collectives::NodeBlock>& block);
  /// Returns the location of [data, data + bytes), or block 0 unless all these bytes lie in this
  /// rank's part of one block.
  Location find(const void* data, std::size_t bytes) const;
  /// Returns null if `number` is 0 or if nothing on this rank owns the block any more.
  std::shared_ptr<collectives::NodeBlock> block(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::weak_ptr<collectives::NodeBlock>> blocks_;
};

/// The gradients of a plan that lie in arenas.
struct MappedGradients {
  /// addresses[i][r] is the address, in this process, of gradient i of the rank with local rank r.
  /// The address is null if the gradient has no elements. Gradient i is mapped if, on every node,
  /// every rank can reach the gradient of all ranks of the node. Otherwise addresses[i] is empty.
  std::vector<std::vector<std::byte*>> addresses;
  /// The blocks that contain the addresses. The plan shares their ownership.
  std::vector<std::shared_ptr<collectives::NodeBlock>> blocks;
};

/// Determines which gradients are mapped (see MappedGradients). Collective. The ranks must have
/// agreed on the gradients. All ranks get the same set of mapped gradients.
MappedGradients find_mapped_gradients(std::span<const NamedTensor> gradients,
                                      const ArenaTable& arenas,
                                      collectives::Collectives& collectives,
                                      const Topology& topology);

}  // namespace horo::plan
