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

/// The algorithms of RingCollectives, except those for allreduce. The allreduces are in
/// ring_allreduce.h and collectives/tree.
namespace horo::collectives {

/// Broadcasts a small buffer of N bytes to n ranks down a binomial tree, with one message per edge.
/// Takes ceil(log2 n) steps. A rank sends at most ceil(log2 n) * N bytes. A buffer of several
/// pieces passes through `staging`, which grows to at least N bytes. The caller keeps `staging`
/// between calls to avoid allocations. `rank_names` has one name per rank of `peers`, for error
/// texts. (Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication
/// operations in MPICH", 2005.)
///
/// Example with 6 ranks and root 0: 0 sends to 4, 2 and 1; 2 sends to 3; 4 sends to 5.
void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging);

/// Broadcasts a large buffer of N bytes to n ranks along the chain root, root+1, ... (modulo n), in
/// segments. With S segments, takes S + n - 2 steps of one segment each. Each rank except the root
/// receives N bytes. Each rank except the last of the chain sends N bytes.
void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root);

/// Reduce-scatter in a ring of n ranks (see Collectives::reduce_scatter). Takes n-1 steps. Each
/// rank sends all parts except its own. The values of a part are combined in ring order, starting
/// with the rank after the rank that receives the result. 16-bit floats are rounded in each step.
/// kAverage divides in the last step. With more than two ranks, partial results are stored in
/// `scratch`, which grows to at least the size of the largest part. The caller keeps `scratch`
/// between calls to avoid allocations. (Source: see RingSchedule.)
void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch);

/// Allgather in a ring of n ranks (see Collectives::allgather). Parts are received into `output`
/// and sent from `output`, without staging. Takes n-1 steps. Each rank sends all parts except the
/// part of its right neighbour. (Source: see RingSchedule.)
void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output);

/// Alltoall among n ranks by pairs (see Collectives::alltoall). In round i = 1 ... n-1, each rank
/// sends to the rank i places ahead and receives from the rank i places behind. Blocks are sent and
/// received in segments, without staging. An empty block causes no message. Each block is sent
/// once, except a rank's own block, which is copied.
void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks);

/// Barrier among n ranks in ceil(log2 n) rounds. In round k = 0, 1, ..., every rank sends to the
/// rank 2^k places ahead and receives from the rank 2^k places behind. `rank_names` has one name
/// per rank of `peers`, for error texts. (Source: Hensgen, Finkel and Manber, "Two algorithms for
/// barrier synchronization", 1988.)
void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names);

}  // namespace horo::collectives
