#pragma once

#include <cstddef>
#include <span>

#include "collectives/hierarchical/hierarchy.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Reduce-scatter (see Collectives::reduce_scatter), in rounds that take a bounded part of every
/// rank's share. The shares are dealt to the columns (rank l of a node to column l modulo the
/// columns) and packed by column; a reduce-scatter inside the node leaves each column's shares with
/// its rank, another along the column leaves the node's; nodes with more ranks than columns pass
/// them on inside. Each node sends (m-1)/m * N bytes across nodes for m nodes and N input bytes.
void hierarchical_reduce_scatter(Hierarchy& hierarchy, const std::byte* input, DataType type,
                                 std::span<const std::size_t> count_of, std::byte* output,
                                 ReduceOp op);

}  // namespace horo::collectives
