#pragma once

#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for buffers of medium size, in the order of CombinationTree. At each level, a
/// core rank keeps half of its range, sends the other half to a peer, and combines the kept half
/// with the values from the peer. Then the peers return the complete parts, level by level in
/// reverse order. An extra rank sends its values to its core rank first and receives the result at
/// the end. Cost for N bytes and a core of p ranks: a core rank takes 2 log2 p steps, sends
/// 2(p-1)/p * N bytes and reduces half as many. If there are extra ranks, two more steps transfer N
/// bytes each. 16-bit floats are rounded in every combination. (Source: Rabenseifner, "Optimization
/// of collective reduction operations", 2004; recursive vector halving with distance doubling.)
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` has one name per
/// rank of `peers`, for error texts.
void halving_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for few ranks and small buffers. Every rank sends its values to every other
/// rank and itself combines all values in the order of CombinationTree. 16-bit floats are rounded
/// in every combination. Takes one step of n - 1 messages for n ranks. With N bytes, each rank
/// sends, receives and reduces (n-1) * N bytes, and needs n * N bytes of staging memory.
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` has one name per
/// rank of `peers`, for error texts.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for small buffers, in the order of CombinationTree. At each level, a core
/// rank exchanges its whole partial result with one peer. An extra rank sends its values to its
/// core rank first and receives the result at the end. Cost for N bytes and a core of p ranks: a
/// core rank takes log2 p steps, and sends and reduces N bytes in each of them. If there are extra
/// ranks, two more steps transfer N bytes each. 16-bit floats are rounded in every combination. The
/// receives of all levels are posted at the start, so the algorithm needs (log2 p + 1) * N bytes of
/// staging memory. A buffer of several pieces needs N bytes more. (Source: Thakur, Rabenseifner and
/// Gropp, "Optimization of collective communication operations in MPICH", 2005.)
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` has one name per
/// rank of `peers`, for error texts.
void recursive_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                  const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
