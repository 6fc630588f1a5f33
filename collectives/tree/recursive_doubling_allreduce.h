#pragma once

#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for small buffers, in the order of CombinationTree: at each level a rank
/// exchanges all that it has with one other. Cost for n ranks, a power of two: log2 n steps, each
/// of N bytes sent and reduced; otherwise two steps more, of N bytes. 16-bit floats are rounded at
/// every level. Staging: log2 n * N bytes, for the receives are posted ahead. (Source: Thakur,
/// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.)
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void recursive_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                  const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
