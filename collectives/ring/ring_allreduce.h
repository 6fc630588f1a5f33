#pragma once

#include "collectives/ring/segment_flow.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place round the ring of all ranks of `peers`: reduce-scatter, then allgather, as
/// one stream of segments (see RingSchedule). The reduction of a segment overlaps with the transfer
/// of the next ones. Cost: 2(n-1) steps; 2(n-1)/n * N bytes sent by each rank, of which half are
/// reduced.
///
/// The values of an element are combined in ring order, beginning behind the rank that owns its
/// chunk; 16-bit floats are added in float32 and rounded at every hop, since that is what travels.
/// kAverage scales once, at the owner. All ranks receive the owner's bits.
void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives
