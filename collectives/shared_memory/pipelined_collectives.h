#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Broadcast of N bytes inside a node. In each step, the root writes the next part of the buffer to
/// its slot, and the other ranks read the slot when the root has posted it. The root writes N bytes
/// to its slots, and each other rank reads N bytes from them. In this and the following functions,
/// `stores` is the kind of stores to the slots.
void pipelined_broadcast(NodeMemory& memory, const ScatteredBuffer& buffer, int root,
                         Stores stores);

/// Allgather inside a node (see Collectives::allgather). In each step, a rank writes the next part
/// of its input to its slot. It then reads the parts that the other ranks have written in the
/// previous step. Each rank writes its own bytes to its slots and reads the bytes of the other
/// ranks from their slots.
void pipelined_allgather(NodeMemory& memory, std::span<const std::byte> input,
                         std::span<const std::size_t> bytes_of, std::span<std::byte> output,
                         Stores stores);

/// Reduce-scatter inside a node (see Collectives::reduce_scatter). A slot has one part for each
/// rank. In each step, a rank writes its values for the other ranks to the parts of its own slot.
/// It then combines its own part of the previous step in rank order. The values of this part are in
/// its own input and in the slots of the other ranks. With N input bytes on n ranks and equal
/// parts, a rank writes (n-1)/n*N bytes to its slots, reads as many from the slots of the other
/// ranks, and reduces N bytes.
void pipelined_reduce_scatter(NodeMemory& memory, const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                              Stores stores);

/// The layout of the blocks of an alltoall inside a node. Each rank writes one stream. The stream
/// consists of the rank's blocks for the other ranks, starting with the next rank and continuing
/// cyclically. The first blocks of the streams are therefore for different ranks. Example with 4
/// ranks:
///
///     rank 0's stream   for 1, for 2, for 3
///     rank 1's stream   for 2, for 3, for 0
///     rank 2's stream   for 3, for 0, for 1
///     rank 3's stream   for 0, for 1, for 2
struct AlltoallStreams {
  std::vector<std::size_t> starts;  ///< starts[r]: offset of this rank's block in r's stream
  std::size_t longest = 0;          ///< bytes of the longest stream, the same on every rank
};

/// Exchanges the offsets of all blocks in the streams, and the lengths of the streams. Block sizes
/// may differ by pair, so a rank cannot compute the number of steps of the alltoall from its own
/// blocks. Collective over the group. Takes one step, in which each rank writes n + 1 numbers (n is
/// the number of ranks).
AlltoallStreams exchange_streams(NodeMemory& memory, const AlltoallBlocks& blocks);

/// Alltoall inside a node (see Collectives::alltoall). `streams` is the result of
/// exchange_streams() for `blocks`. Each rank writes its stream to its slots, one part per step,
/// and reads its blocks from the slots of the other ranks. All ranks take as many steps as the
/// longest stream needs. Each rank writes its bytes for the other ranks once and reads the bytes
/// from the other ranks once. Its own block is copied directly.
void pipelined_alltoall(NodeMemory& memory, const AlltoallBlocks& blocks,
                        const AlltoallStreams& streams, Stores stores);

}  // namespace horo::collectives
