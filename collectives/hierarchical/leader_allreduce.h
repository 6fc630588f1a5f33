#pragma once

#include "collectives/hierarchical/hierarchy.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce of a small buffer by one leader per node: allreduce inside the node, then among the
/// leaders (the first column), then broadcast inside the node. Cost for m nodes: one rank of each
/// sends what an allreduce of the whole buffer over m ranks sends, where hierarchical_allreduce()
/// has all columns send messages of a shard each. The same bits as that one, as long as the column
/// combines in the same order.
void leader_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives
