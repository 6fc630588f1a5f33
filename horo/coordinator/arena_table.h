#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "collectives/node_block.h"

namespace horo::coordinator {

/// The node blocks that this rank has allocated. Allocation is collective, so a block has the same
/// number on all ranks. Does not keep blocks alive. Thread-safe.
class ArenaTable {
 public:
  /// A place in this rank's part of a block; block 0: in none.
  struct Place {
    std::uint64_t block = 0;
    std::uint64_t offset = 0;
  };

  void add(const std::shared_ptr<collectives::NodeBlock>& block);
  /// Where [data, data + bytes) lies, if it is wholly in one block.
  Place find(const void* data, std::size_t bytes) const;
  /// Null if this rank has freed it.
  std::shared_ptr<collectives::NodeBlock> block(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::weak_ptr<collectives::NodeBlock>> blocks_;
};

}  // namespace horo::coordinator
