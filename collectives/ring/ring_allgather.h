#pragma once

#include <cstddef>
#include <span>

#include "collectives/ring/segment_flow.h"

namespace horo::collectives {

/// Allgather round the ring (see Collectives::allgather), received in place. Cost: n-1 steps; each
/// rank sends all parts but that of its right neighbour.
void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output);

}  // namespace horo::collectives
