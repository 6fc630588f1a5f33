#pragma once

#include "collectives/mapped_buffer.h"
#include "collectives/shared_memory/node_memory.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce inside a node on buffers that its ranks have mapped from each other. Rank r reads
/// chunk r of every buffer, combines them in rank order and writes the result to every buffer: no
/// staging.
/// Cost per rank for N bytes on n ranks: N read and N written in all, the least an allreduce in
/// place can do; two waits.
void mapped_allreduce(NodeMemory& memory, const MappedBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives
