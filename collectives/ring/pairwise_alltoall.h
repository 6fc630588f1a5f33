#pragma once

#include <cstddef>

#include "collectives/alltoall_blocks.h"
#include "collectives/ring/segment_flow.h"

namespace horo::collectives {

/// Alltoall by pairs (see Collectives::alltoall): in round i each rank sends to the i-th rank after
/// it and receives from the i-th before it, segment by segment, in place. `blocks` may hold nothing
/// for some pairs (both ranks of a pair agree on that), which then exchange no messages. Cost: n-1
/// rounds; each rank sends and receives every block but its own once.
void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks);

}  // namespace horo::collectives
