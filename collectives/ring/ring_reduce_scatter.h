#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/ring/segment_flow.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Reduce-scatter round the ring (see Collectives::reduce_scatter): the first half of
/// ring_allreduce, with the same order of combination. `scratch` grows to the largest part; keep it
/// between calls. Cost: n-1 steps; each rank sends all parts but its own.
void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch);

}  // namespace horo::collectives
