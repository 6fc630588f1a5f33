#pragma once

#include <cstddef>
#include <vector>

#include "collectives/alltoall_blocks.h"
#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// How the blocks of an alltoall inside a node line up. Each rank sends one stream: its blocks for
/// the others, that for the next rank first, then that for the one after it, and so on round. So
/// with equal blocks each rank is read by one other at a time. Example, 4 ranks:
///
///     rank 0's stream   for 1, for 2, for 3
///     rank 1's stream   for 2, for 3, for 0
///     rank 2's stream   for 3, for 0, for 1
///     rank 3's stream   for 0, for 1, for 2
struct AlltoallStreams {
  std::vector<std::size_t> starts;  ///< starts[r]: where this rank's block begins in r's stream
  std::size_t longest = 0;          ///< bytes of the longest stream, the same on every rank
};

/// Tells every other rank where its block begins in this rank's stream, and how long the stream
/// is: blocks differ by pair, so no rank could know from its own lists how many steps the alltoall
/// takes. Collective over the group; one step, n + 1 numbers written.
AlltoallStreams exchange_streams(NodeMemory& memory, const AlltoallBlocks& blocks);

/// Alltoall inside a node (see Collectives::alltoall) of ranks that have exchanged `streams`: each
/// puts its stream into its slots, slot by slot, while it takes its blocks out of the others'. All
/// ranks take the steps of the longest stream. Cost per rank: the bytes for the others written
/// once, those from the others read once; its own block is copied directly.
void pipelined_alltoall(NodeMemory& memory, const AlltoallBlocks& blocks,
                        const AlltoallStreams& streams, Stores stores);

}  // namespace horo::collectives
