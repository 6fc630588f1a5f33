#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "collectives/mapped_buffer.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/ring/wire.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// One rank's part in a ring allreduce.
struct RingAllreduce {
  int rank = 0;                   ///< in the ring
  int size = 1;                   ///< of the ring
  std::size_t segment_bytes = 0;  ///< the largest segment, as it travels
  int ranks = 1;                  ///< how many ranks' values are combined: what kAverage divides by
  std::optional<Wire> wire;       ///< of float32; other types travel as they are
};

/// A flow that has not begun.
struct PreparedFlow {
  SegmentFlow::Plan plan;
  std::unique_ptr<FlowEnds> ends;  ///< null: there is nothing to do
};

/// Allreduce in place round a ring: reduce-scatter, then allgather, as one stream of segments (see
/// RingSchedule). The reduction of a segment overlaps with the transfer of the next ones. Cost for
/// n ranks in the ring: 2(n-1) steps; 2(n-1)/n * N bytes sent by each, of which half are reduced.
///
/// A rank may stand for others whose buffers it has mapped: it brings their values, combined in
/// rank order as they are sent or added, and leaves the results in all of their buffers; nothing
/// is staged but its segments. No other rank touches the buffers meanwhile.
///
/// The values of an element are combined in ring order, beginning behind the rank that owns its
/// chunk; 16-bit floats are added in float32 and rounded at every hop, since that is what travels.
/// kAverage scales once, at the owner. All ranks receive the owner's bits. With a wire type see
/// NarrowAllreduceEnds. `buffer` outlives the flow.
PreparedFlow prepare_ring_allreduce(const RingAllreduce& ring, const MappedBuffer& buffer,
                                    ReduceOp op);

/// The same, done, for a buffer of this rank alone.
void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op, std::optional<Wire> wire = {});

}  // namespace horo::collectives
