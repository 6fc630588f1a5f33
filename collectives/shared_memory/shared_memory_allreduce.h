#pragma once

#include <vector>

#include "collectives/buffers.h"
#include "collectives/shared_memory/node_memory.h"
#include "collectives/shared_memory/store_chooser.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce inside a node as a three-stage software pipeline over segments that stay in the cache.
/// Rank r owns chunk r of each segment. A rank copies the other ranks' chunks of segment k into its
/// slot. It reduces its own chunk of segment k-1 in rank order, directly from its user's buffer and
/// the slots of the other ranks. It copies the complete chunks of segment k-2 from the slots of the
/// other ranks:
///
///       step            k            k+1          k+2
///       copy in         segment k    k+1          k+2
///       reduce                       segment k    k+1
///       copy out                                  segment k
///
/// Values are read from and written to the user's buffers without packing. With N bytes on n ranks,
/// a rank reads N bytes and writes N bytes of user memory. In shared memory, it writes N bytes and
/// reads 2(n-1)/n*N bytes. It waits three times per segment and peer, but usually the flag has
/// already reached its target. Reports the transfer rate to `chooser`, which may change the kind of
/// stores during the call.
void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser);

/// Allreduce of a small buffer (at most memory.direct_bytes()) inside a node, in one step. Each
/// rank publishes its values, and then reduces the values of all ranks in rank order. Values of at
/// most Flag::kInlineBytes are in the cache line of the flag. With N bytes on n ranks, a rank
/// writes N bytes, reads and reduces n*N bytes, and waits for one flag per peer.
void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch);

}  // namespace horo::collectives
