#pragma once

#include "collectives/hierarchical/hierarchy.h"
#include "collectives/reduce/division.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Reduces `values`, each node's, along this rank's column, in the way that suits their size.
/// kAverage divides by the number of ranks: after the exchange, or before it where the column
/// narrows its wire, since the sum of all ranks need not fit into the wire type.
inline void column_allreduce(Hierarchy& h, const ScatteredBuffer& values, ReduceOp op) {
  const bool is_narrow = h.wire && values.type() == DataType::kFloat32;
  if (is_narrow) divide_if_average(values, op, h.layout.size());
  h.column->allreduce(values, without_division(op));
  if (!is_narrow) divide_if_average(values, op, h.layout.size());
}

}  // namespace horo::collectives
