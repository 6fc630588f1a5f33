#include "collectives/hierarchical/leader_allreduce.h"

#include "collectives/reduce/division.h"

namespace horo::collectives {

void leader_allreduce(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op) {
  h.node.allreduce(buffer, without_division(op));
  if (h.layout.local_rank() == 0) {
    if (h.is_wire_narrow) divide_if_average(buffer, op, h.layout.size());
    h.column->allreduce(buffer, without_division(op));
    if (!h.is_wire_narrow) divide_if_average(buffer, op, h.layout.size());
  }
  h.node.broadcast(buffer, 0);
}

}  // namespace horo::collectives
