#pragma once

#include <cstddef>

#include "collectives/ring/segment_flow.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"
#include "horo/base/wire_report.h"

namespace horo::collectives {

/// ring_allreduce() of float32 whose segments travel as `wire` (kFloat16 or kBFloat16): half the
/// bytes. Values are converted as they are copied to and from the segments and added in float32, so
/// an element is rounded once per hop, and once more when it is complete, so that all ranks end
/// with the same bits. kAverage divides every rank's values before they travel. `segment_bytes`: of
/// the wire type. Adds to `report`.
void narrow_ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                           const ScatteredBuffer& buffer, ReduceOp op, DataType wire,
                           WireReport& report);

}  // namespace horo::collectives
