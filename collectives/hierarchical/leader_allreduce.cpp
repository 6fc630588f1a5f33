#include "collectives/hierarchical/leader_allreduce.h"

#include "collectives/hierarchical/column_allreduce.h"

namespace horo::collectives {

void leader_allreduce(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op) {
  h.node.allreduce(buffer, without_division(op));
  if (h.layout.local_rank() == 0) column_allreduce(h, buffer, op);
  h.node.broadcast(buffer, 0);
}

}  // namespace horo::collectives
