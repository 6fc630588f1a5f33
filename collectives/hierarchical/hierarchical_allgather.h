#pragma once

#include <cstddef>
#include <span>

#include "collectives/hierarchical/hierarchy.h"

namespace horo::collectives {

/// Allgather (see Collectives::allgather), in rounds that take a bounded part of every rank's
/// input: gather inside each node, exchange the nodes' data among their first ranks, broadcast
/// inside each node, put every rank's part where it belongs. Ranks of different nodes may
/// interleave. Every byte crosses into each other node once.
void hierarchical_allgather(Hierarchy& hierarchy, std::span<const std::byte> input,
                            std::span<const std::size_t> bytes_of, std::span<std::byte> output);

}  // namespace horo::collectives
