#include "collectives/hierarchical/hierarchical_mapped_allreduce.h"

#include "collectives/line_chunks.h"

namespace horo::collectives {

void hierarchical_mapped_allreduce(Hierarchy& h, const MappedBuffer& buffer, ReduceOp op) {
  h.node.barrier();  // everybody's values are there
  if (h.flow != nullptr) {
    const MappedBuffer shard =
        buffer.part(chunk_of_lines(buffer.own().count(), buffer.own().element_bytes(),
                                   h.layout.columns(), h.layout.local_rank()));
    const PreparedFlow flow = prepare_ring_allreduce(h.ring(), shard, op);
    if (flow.ends != nullptr) h.flow->run(flow.plan, *flow.ends);
  }
  h.node.barrier();  // all shards are complete
}

}  // namespace horo::collectives
