#pragma once

#include "collectives/scattered_buffer.h"
#include "collectives/shared_memory/node_memory.h"
#include "collectives/shared_memory/store_chooser.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce inside a node as a three-stage software pipeline over segments that stay in cache.
/// Rank r owns chunk r of each segment. While a rank copies the other ranks' chunks of segment k
/// into its slot, it reduces its own chunk of segment k-1, in rank order, straight from its user's
/// memory and the others' slots, and copies the finished chunks of segment k-2 out of the others'
/// slots:
///
///   step            k            k+1          k+2
///   copy in         segment k    k+1          k+2
///   reduce                       segment k    k+1
///   copy out                                  segment k
///
/// Gradients are read where they lie and written back there: there is no packing.
/// Cost per rank for N bytes on n ranks: 2N of the user's memory (one read, one write), and through
/// shared memory (n-1)/n*N + N/n written and twice (n-1)/n*N read; two waits per segment, normally
/// satisfied when they are reached. `chooser` is told how it goes, and may change `stores` midway.
void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser);

}  // namespace horo::collectives
