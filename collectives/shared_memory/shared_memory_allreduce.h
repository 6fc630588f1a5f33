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
/// slot. It reduces its own chunk of segment k-1 in rank order, directly from its user's memory and
/// the slots of the others. It copies the complete chunks of segment k-2 from the slots of the
/// others:
///
///       step            k            k+1          k+2
///       copy in         segment k    k+1          k+2
///       reduce                       segment k    k+1
///       copy out                                  segment k
///
/// Values are read from and written to the user's buffers without packing. Cost per rank for N
/// bytes on n ranks: 2N of user memory (one read, one write); in shared memory, N written and
/// 2(n-1)/n*N read; two waits per segment, which are usually already satisfied. Reports the
/// transfer rate to `chooser`, which may change `stores` during the call.
void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser);

/// Allreduce of a small buffer (at most memory.direct_bytes()) inside a node, in one step: each
/// rank publishes its values, and then reduces the values of all ranks in rank order. Up to
/// Flag::kInlineBytes, the values are in the cache line of the flag. Cost per rank: N bytes
/// written, n*N read and reduced, one flag per peer.
void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch);

}  // namespace horo::collectives
