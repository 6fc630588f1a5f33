#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/ring/ring_allreduce.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/ring/wire.h"
#include "collectives/staging.h"

namespace horo::collectives {

/// What the hierarchical collectives are composed of, on one rank.
struct Hierarchy {
  NodeLayout layout;
  Collectives& node;        ///< among the ranks of this node, by local rank
  Collectives* column;      ///< among the ranks of this rank's column, by node; null if it has none
  SegmentFlow* flow;        ///< the same, for allreduces that go on beside other work
  std::size_t block_bytes;  ///< how much of a buffer goes through at a time
  std::size_t segment_bytes;  ///< of the rings along columns
  std::optional<Wire> wire;   ///< what float32 travels as along columns
  /// Staging, kept between calls.
  std::vector<std::byte> block;
  std::array<std::vector<std::byte>, 2> shards;
  std::vector<std::byte> piece;
  /// Whether blocks may go round the ring beside other work: not if a tree is forced.
  bool may_overlap = true;

  /// This rank's part in an allreduce round its column, of values of all ranks.
  RingAllreduce ring() const {
    return {layout.node(), layout.node_count(), segment_bytes, layout.size(), wire};
  }
};

}  // namespace horo::collectives
