#pragma once

#include <cstddef>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/staging.h"

namespace horo::collectives {

/// What the hierarchical collectives are composed of, on one rank.
struct Hierarchy {
  NodeLayout layout;
  Collectives& node;        ///< among the ranks of this node, by local rank
  Collectives* column;      ///< among the ranks of this rank's column, by node; null if it has none
  std::size_t block_bytes;  ///< how much of a buffer goes through at a time
  bool is_wire_narrow;      ///< whether float32 travels along the column as a 16-bit type
  /// Staging, kept between calls.
  std::vector<std::byte> block;
  std::vector<std::byte> shard;
  std::vector<std::byte> piece;
};

}  // namespace horo::collectives
