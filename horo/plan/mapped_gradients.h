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

/// The node blocks that this rank has allocated. Allocation is collective, so a block has the same
/// number on all ranks. Does not keep blocks alive. Thread-safe.
class ArenaTable {
 public:
  /// An offset in this rank's part of a block. Block 0 means that the memory is in no block.
  struct Location {
    std::uint64_t block = 0;
    std::uint64_t offset = 0;
  };

  void add(const std::shared_ptr<collectives::NodeBlock>& block);
  /// Returns the location of [data, data + bytes) if it lies entirely in one block.
  Location find(const void* data, std::size_t bytes) const;
  /// Returns null if this rank has freed the block.
  std::shared_ptr<collectives::NodeBlock> block(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::weak_ptr<collectives::NodeBlock>> blocks_;
};

/// The gradients of a plan that lie in arenas.
struct MappedGradients {
  /// addresses[i][r] is the address, in this process, of gradient i of rank r of the node. The
  /// address is null if the gradient has no elements. addresses[i] is empty unless gradient i has
  /// no elements or lies in an arena on every rank of the plan.
  std::vector<std::vector<std::byte*>> addresses;
  /// The blocks that own the memory of the addresses.
  std::vector<std::shared_ptr<collectives::NodeBlock>> blocks;
};

/// Exchanges the locations of the gradients between the ranks. Collective. The ranks must have
/// agreed on the gradients. All ranks get the same set of mapped gradients.
MappedGradients find_mapped_gradients(std::span<const NamedTensor> gradients,
                                      const ArenaTable& arenas,
                                      collectives::Collectives& collectives,
                                      const Topology& topology);

}  // namespace horo::plan
