#pragma once

#include <cstddef>
#include <span>

#include "collectives/hierarchical/hierarchy.h"
#include "collectives/ring/segment_flow.h"

namespace horo::collectives {

/// Alltoall (see Collectives::alltoall): the blocks for ranks of the own node go through the node's
/// collectives, those for other nodes straight to their ranks, by pairs. `flow` is among all ranks.
/// Where the ranks of a node are not consecutive, their blocks do not lie together and travel by
/// pairs too. Every byte crosses between nodes once; n - l rounds of messages for a rank whose node
/// has l of n ranks.
void hierarchical_alltoall(Hierarchy& hierarchy, SegmentFlow& flow, std::size_t segment_bytes,
                           std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                           std::span<std::byte> output, std::span<const std::size_t> bytes_from);

}  // namespace horo::collectives
