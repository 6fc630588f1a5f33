#pragma once

#include <cstddef>

#include "collectives/hierarchical/hierarchy.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in three phases, block by block: reduce-scatter inside the node, so that each rank
/// that has a column holds one shard; allreduce of the shard along the column; allgather inside the
/// node. While a block is on the wire, this thread does the node's phases of its neighbours, and
/// advances the wire whenever it waits in them:
///
///   on the wire   block k           block k+1
///   in the node   gather k-1, reduce k+1   gather k, reduce k+2
///
/// For m nodes, c columns and N bytes a rank sends 2(m-1)/m * N/c bytes across nodes, a node in all
/// 2(m-1)/m * N, which is what a link between nodes must carry at least. kAverage divides once, at
/// the end of the column (before it, where the wire is narrow). (Source: the hierarchical allreduce
/// of Horovod and UCC, composed.)
void hierarchical_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives
