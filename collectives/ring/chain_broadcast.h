#pragma once

#include <cstddef>

#include "collectives/ring/segment_flow.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// Broadcast along a chain root, root+1, ..., each rank handing on segment by segment: for large
/// buffers. Cost for S segments: S + n - 2 segment times; N bytes received and N sent by each rank
/// but the ends.
void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root);

}  // namespace horo::collectives
