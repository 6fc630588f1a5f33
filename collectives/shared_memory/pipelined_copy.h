#pragma once

#include <cstddef>
#include <span>

#include "collectives/scattered_buffer.h"
#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Broadcast inside a node: the root fills its slots one after the other, the others empty them as
/// they come. Cost: N bytes written by the root, N read by each rank.
void pipelined_broadcast(NodeMemory& memory, const ScatteredBuffer& buffer, int root,
                         Stores stores);

/// Allgather inside a node (see Collectives::allgather): every rank puts its input into its slots
/// piece by piece while it takes the previous pieces out of the others'. Cost per rank: its own
/// bytes written, the others' bytes read.
void pipelined_allgather(NodeMemory& memory, std::span<const std::byte> input,
                         std::span<const std::size_t> bytes_of, std::span<std::byte> output,
                         Stores stores);

/// Reduce-scatter inside a node (see Collectives::reduce_scatter): a slot has one part for each
/// rank; a rank fills the others' parts and reduces what the others left in its own, in rank order.
/// Cost per rank for N input bytes: (n-1)/n*N written, N read and reduced.
void pipelined_reduce_scatter(NodeMemory& memory, const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                              Stores stores);

}  // namespace horo::collectives
