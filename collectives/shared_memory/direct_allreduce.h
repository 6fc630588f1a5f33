#pragma once

#include <vector>

#include "collectives/scattered_buffer.h"
#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce of a small buffer (at most memory.direct_bytes()) inside a node, in one step: each
/// rank puts its values where all can read them, then reduces all ranks' values, in rank order, by
/// itself. Up to Flag::kInlineBytes the values travel in the flag's own cache line. Cost per rank:
/// N bytes written, n*N read and reduced, one flag per peer.
void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch);

}  // namespace horo::collectives
