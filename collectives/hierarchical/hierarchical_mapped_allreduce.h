#pragma once

#include "collectives/hierarchical/hierarchy.h"
#include "collectives/mapped_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce of buffers that the ranks of each node have mapped from each other. Each rank that has
/// a column owns a shard of the buffer, and takes it round the column for all ranks of its node
/// (see prepare_ring_allreduce()): it combines their values as they leave the node, segment by
/// segment, and writes complete values to all of their buffers. Nothing is staged but segments, and
/// the node's part overlaps with the wire on one thread. Two waits for the ranks of the node.
///
/// Cost across nodes as hierarchical_allreduce(); in memory, N bytes read and written by the ranks
/// of a node for each of its ranks, and (m-1)/m * N for partial values. The values of a node are
/// combined in rank order, nodes in ring order; 16-bit floats are rounded once per hop.
void hierarchical_mapped_allreduce(Hierarchy& hierarchy, const MappedBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives
