#pragma once

#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for buffers of medium size, in the order of CombinationTree. At each level a
/// rank keeps half of its range, sends the other half to a peer, and adds the peer's values of the
/// kept half. Then the complete parts are returned in reverse order. Cost for n ranks, a power of
/// two: 2 log2 n steps; 2(n-1)/n * N bytes sent, half of which are reduced. Otherwise two more
/// steps of N bytes. 16-bit floats are rounded at every level. (Source: Rabenseifner, "Optimization
/// of collective reduction operations", 2004; recursive vector halving with distance doubling.)
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void halving_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for few ranks and small buffers: every rank sends its values to every other
/// rank and combines all values itself, in the order of CombinationTree. 16-bit floats are rounded
/// at every level. Cost: one step. Each rank sends, receives and reduces (n-1) * N bytes, and needs
/// n * N bytes of staging.
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for small buffers, in the order of CombinationTree: at each level a rank
/// exchanges its whole partial result with one peer. Cost for n ranks, a power of two: log2 n steps
/// of N bytes sent and reduced. Otherwise two more steps of N bytes. 16-bit floats are rounded at
/// every level. Staging: (log2 n + 1) * N bytes, because the receives of all levels are posted
/// ahead. (Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication
/// operations in MPICH", 2005.)
///
/// Collective over `peers`. `staging` is kept between calls; `rank_names` are for error texts.
void recursive_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                  const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
