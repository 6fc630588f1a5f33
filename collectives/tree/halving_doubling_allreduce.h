#pragma once

#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for buffers of middle size, in the order of CombinationTree: at each level a
/// rank keeps half of what it has, gives the other half to a peer and takes in the peer's values of
/// its own half; then the complete parts come back the same way. Cost for n ranks, a power of two:
/// 2 log2 n steps; 2(n-1)/n * N bytes sent, of which half are reduced; otherwise two steps more, of
/// N bytes. 16-bit floats are rounded at every level. (Source: Rabenseifner, "Optimization of
/// collective reduction operations", 2004; recursive vector halving with distance doubling.)
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void halving_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
