#pragma once

#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for buffers of medium size, in the order of CombinationTree. At each level, a
/// rank keeps half of its range, sends the other half to a peer, and combines the kept half with
/// the values from the peer. Then the ranks return the complete parts, level by level in reverse
/// order. If the number of ranks n is a power of two, a buffer of N bytes takes 2 log2 n steps.
/// Each rank sends 2(n-1)/n * N bytes and reduces half as many. If n is not a power of two, two
/// more steps transfer N bytes each. 16-bit floats are rounded at every level. (Source:
/// Rabenseifner, "Optimization of collective reduction operations", 2004; recursive vector halving
/// with distance doubling.)
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` are for error
/// texts.
void halving_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for few ranks and small buffers. Every rank sends its values to every other
/// rank and itself combines all values in the order of CombinationTree. 16-bit floats are rounded
/// at every level. Takes one step. With N bytes on n ranks, each rank sends, receives and reduces
/// (n-1) * N bytes, and needs n * N bytes of staging memory.
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` are for error
/// texts.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

/// Allreduce in place for small buffers, in the order of CombinationTree. At each level, a rank
/// exchanges its whole partial result with one peer. If the number of ranks n is a power of two, a
/// buffer of N bytes takes log2 n steps, and a rank sends and reduces N bytes in each step. If n is
/// not a power of two, two more steps transfer N bytes each. 16-bit floats are rounded at every
/// level. The receives of all levels are posted ahead, so the algorithm needs (log2 p + 1) * N
/// bytes of staging memory, where p is the largest power of two that is not above n. A buffer of
/// several pieces needs N bytes more. (Source: Thakur, Rabenseifner and Gropp, "Optimization of
/// collective communication operations in MPICH", 2005.)
///
/// Collective over `peers`. The caller keeps `staging` between calls. `rank_names` are for error
/// texts.
void recursive_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                  const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging);

}  // namespace horo::collectives
