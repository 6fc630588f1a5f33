#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/segment_flow.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

/// The collectives over messages that have one algorithm or are chosen by size alone; for allreduce
/// see ring_allreduce.h and collectives/tree.
namespace horo::collectives {

/// Broadcasts a small buffer down a binomial tree, in one message per edge. Cost: ceil(log2 n)
/// message times; a rank sends at most ceil(log2 n) * N bytes. `staging` is used for buffers of
/// several pieces; keep it between calls. `rank_names` are for error texts. (Source: Thakur,
/// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.)
///
/// Example, 6 ranks, root 0: 0 -> 4, 2, 1; 2 -> 3; 4 -> 5.
void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging);

/// Broadcasts a large buffer along the chain root, root+1, ..., in segments. Cost for S segments: S
/// + n - 2 segment times; each rank receives N bytes (except the root) and sends N bytes (except
/// the last).
void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root);

/// Reduce-scatter in a ring (see Collectives::reduce_scatter): the first half of ring_allreduce,
/// with the same order of combination. `scratch` grows to the largest part; keep it between calls.
/// Cost: n-1 steps; each rank sends all parts except its own. (Source: see RingSchedule.)
void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch);

/// Allgather in a ring (see Collectives::allgather); parts are received in place. Cost: n-1 steps;
/// each rank sends all parts except that of its right neighbour. (Source: see RingSchedule.)
void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output);

/// Alltoall by pairs (see Collectives::alltoall): in round i each rank sends to the i-th rank after
/// it and receives from the i-th rank before it, in segments, in place. A pair whose blocks are
/// empty on both ranks exchanges no messages. Cost: n-1 rounds; each rank sends and receives every
/// block except its own once.
void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks);

/// Barrier in ceil(log2 n) rounds: in round k every rank sends to the rank 2^k ahead and receives
/// from the one 2^k behind. (Source: Hensgen, Finkel and Manber, "Two algorithms for barrier
/// synchronization", 1988.) `rank_names` are for error texts.
void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names);

}  // namespace horo::collectives
