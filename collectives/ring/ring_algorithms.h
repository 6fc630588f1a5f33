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

/// The collectives over messages except allreduce. For allreduce, see ring_allreduce.h and
/// collectives/tree.
namespace horo::collectives {

/// Broadcasts a small buffer of N bytes to n ranks down a binomial tree, in one message per edge.
/// Takes ceil(log2 n) message times. A rank sends at most ceil(log2 n) * N bytes. Buffers of
/// several pieces are packed into `staging`, which the caller keeps between calls to avoid
/// allocations. `rank_names` are for error texts. (Source: Thakur, Rabenseifner and Gropp,
/// "Optimization of collective communication operations in MPICH", 2005.)
///
/// Example with 6 ranks and root 0: 0 sends to 4, 2 and 1; 2 sends to 3; 4 sends to 5.
void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging);

/// Broadcasts a large buffer of N bytes along the chain root, root+1, ..., in segments. S segments
/// take S + n - 2 segment times. Each rank except the root receives N bytes. Each rank except the
/// last sends N bytes.
void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root);

/// Reduce-scatter in a ring (see Collectives::reduce_scatter). It is the first half of
/// ring_allreduce, with the same order of combination. `scratch` grows to the size of the largest
/// part. The caller keeps `scratch` between calls to avoid allocations. Takes n-1 steps. Each rank
/// sends all parts except its own. (Source: see RingSchedule.)
void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch);

/// Allgather in a ring (see Collectives::allgather). Parts are received in place. Takes n-1 steps.
/// Each rank sends all parts except the part of its right neighbour. (Source: see RingSchedule.)
void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output);

/// Alltoall by pairs (see Collectives::alltoall). In round i, each rank sends to the i-th rank
/// after it and receives from the i-th rank before it, in segments and in place. An empty block
/// causes no message. Takes n-1 rounds. Each rank sends and receives every block except its own
/// once.
void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks);

/// Barrier in ceil(log2 n) rounds. In round k, every rank sends to the rank 2^k places ahead and
/// receives from the rank 2^k places behind. `rank_names` are for error texts. (Source: Hensgen,
/// Finkel and Manber, "Two algorithms for barrier synchronization", 1988.)
void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names);

}  // namespace horo::collectives
