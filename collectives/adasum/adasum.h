#pragma once

#include <cstddef>
#include <vector>

#include "collectives/adasum/ordered_sum.h"
#include "collectives/adasum/tensor_chunks.h"
#include "collectives/collectives.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// ReduceOp::kAdasum over any Collectives. (Source: Maleki et al., "Scaling distributed training
/// with adaptive summation", 2020; the tree is theirs, the exchange is not.)
///
/// An alltoall gives rank c chunk c of every rank's tensors. Then every rank has all it needs for
/// its chunks but the products of whole tensors: level by level of the tree, the ranks add up their
/// parts of those (see ordered_sum) and combine the pairs. Vectors between levels are float32, of
/// float64 tensors float64. An allgather spreads the result.
///
/// Cost for n ranks and N bytes: 2(n-1)/n * N bytes sent per rank, as an allreduce; one alltoall,
/// one allgather and ceil(log2 n) small sums of 3 doubles for each pair of vectors and tensor.
/// Memory, kept between calls: 2N, and for 16-bit tensors 2N more.
///
/// Every number is computed from a tensor's values in an order that depends on nothing but its size
/// and n, so results have the same bits with any Collectives and however tensors are packed.
class Adasum {
 public:
  /// `collectives` are among `size` ranks, of which this is `rank`, and outlive this.
  Adasum(Collectives& collectives, int rank, int size)
      : collectives_(collectives), rank_(rank), size_(size) {}

  /// Combines each piece of `tensors` (of floating point), in place. All ranks have the same
  /// pieces. float64 values between 1e-140 and 1e140 in magnitude: their squares are added up.
  void allreduce(const ScatteredBuffer& tensors);

 private:
  // `vectors`: this rank's chunks as they come from rank 0, 1, ...; the result is left in the
  // first.
  void combine_all(DataType type, const TensorChunks& chunks, std::byte* vectors);
  template <typename T>
  void combine_tree(const TensorChunks& chunks, T* vectors);
  template <typename T>
  void combine_pairs(const TensorChunks& chunks, const std::vector<T*>& vectors);

  Collectives& collectives_;
  int rank_;
  int size_;
  std::vector<std::byte> packed_;
  std::vector<std::byte> received_;
  std::vector<std::byte> widened_;
  OrderedSumStaging sums_;
};

}  // namespace horo::collectives
