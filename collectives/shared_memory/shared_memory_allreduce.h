#pragma once

#include <vector>

#include "collectives/buffers.h"
#include "collectives/shared_memory/node_memory.h"
#include "collectives/shared_memory/store_chooser.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce inside a node as a three-stage software pipeline over segments of `segment_bytes`.
/// Each segment is cut into one chunk per rank, and rank r owns chunk r. In the first stage, a rank
/// copies its values for the chunks of the other ranks to its slot. In the second stage, it
/// combines the values of all ranks for its own chunk in rank order. It reads them from its own
/// buffer and from the slots of the other ranks, and writes the result to both its buffer and its
/// slot. In the third stage, it copies the complete chunks of the other ranks from their slots to
/// its buffer:
///
///       iteration       k            k+1          k+2
///       copy in         segment k    k+1          k+2
///       reduce                       segment k    k+1
///       copy out                                  segment k
///
/// Nothing is packed: the pieces of the buffer are read and written directly. With N bytes on n
/// ranks, a rank reads N bytes from its buffer and writes N bytes to it. It writes N bytes to its
/// slots and reads 2(n-1)/n*N bytes from the slots of the other ranks. It waits three times per
/// segment and peer, but a flag has usually reached its target before the wait. Reports the
/// transfer rate to `chooser`, which may change the kind of stores during the call.
void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser);

/// Allreduce of a small buffer (at most memory.direct_bytes()) inside a node, in one direct
/// exchange. Each rank publishes its values and then itself combines the values of all ranks in
/// rank order. Values of at most Flag::kInlineBytes are in the cache line of the flag. With N bytes
/// on n ranks, a rank writes N bytes, reads and reduces n*N bytes, and waits for one flag per peer.
/// If the buffer has several pieces, the result passes through `scratch`, which the caller keeps
/// between calls to avoid allocations.
void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch);

}  // namespace horo::collectives
