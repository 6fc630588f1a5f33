#pragma once

#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for few ranks and small buffers: every rank sends its values to every other
/// and combines all of them itself, in the order of CombinationTree, 16-bit floats rounded at every
/// level. Cost: one step; (n-1) * N bytes sent, received and reduced by each rank; n * N bytes of
/// staging.
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
