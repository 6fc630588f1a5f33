#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/collectives.h"

namespace horo::collectives {

/// Divides each tensor of a list among ranks. Rank r owns chunk r of each tensor (see chunk_of).
/// The chunks of a tensor therefore do not depend on the other tensors. In packed order, chunks are
/// sorted by rank and, within a rank, by tensor.
class TensorChunks {
 public:
  /// Each piece of `tensors` is one tensor.
  TensorChunks(const ScatteredBuffer& tensors, int ranks);

  /// Returns, by tensor, the range of the tensor's chunk within the packed chunks of `rank`, in
  /// elements.
  const std::vector<Range>& of_rank(int rank) const {
    return places_[static_cast<std::size_t>(rank)];
  }
  /// The number of elements in all chunks of `rank`.
  std::size_t count_of(int rank) const {
    return of_rank(rank).empty() ? 0 : of_rank(rank).back().end;
  }

  /// Copies all elements to `packed` in packed order.
  void pack(const ScatteredBuffer& tensors, std::byte* packed) const;
  /// Copies all elements from `packed` back to `tensors`.
  void unpack(const std::byte* packed, const ScatteredBuffer& tensors) const;

 private:
  std::vector<std::vector<Range>> places_;  // by rank, by tensor
};

/// The dot products of two vectors a and b, or of parts of a and b. Adasum computes its weights
/// from these products.
struct Projections {
  double a_squared = 0;  ///< a.a
  double b_squared = 0;  ///< b.b
  double a_by_b = 0;     ///< a.b
};

/// Returns the dot products of a and b, which have `count` elements each. Computes in float64. The
/// order of additions depends only on `count`.
Projections project(const float* a, const float* b, std::size_t count);
Projections project(const double* a, const double* b, std::size_t count);

/// Sets a = Adasum(a, b) = (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b. `whole` holds the dot
/// products of the whole vectors, of which a and b may be parts. The weight of a zero vector is 1.
/// Computes each element in float64 and then converts it to the type of a.
void combine(const Projections& whole, float* a, const float* b, std::size_t count);
void combine(const Projections& whole, double* a, const double* b, std::size_t count);

/// Returns a view of all `projections` as one array of doubles, for ordered_sum().
inline std::span<double> as_doubles(std::vector<Projections>& projections) {
  static_assert(sizeof(Projections) == 3 * sizeof(double));
  return {reinterpret_cast<double*>(projections.data()), 3 * projections.size()};
}

/// The staging memory of ordered_sum(), kept between calls. After an error, transfers in flight may
/// still access this memory. It must therefore outlive the PointToPoint that these transfers use.
struct OrderedSumStaging {
  std::vector<double> parts;
  std::vector<double> own;
};

/// Adds up the `values` of all ranks in place, element by element and in rank order. Collective:
/// all ranks must pass the same number of values. Unlike in Collectives::allreduce(), the bits of a
/// sum depend neither on the algorithm nor on the position of the element in `values`. Cost for n
/// ranks and N bytes of values: if n * N <= 32 KiB, one allgather. Otherwise one alltoall and one
/// allgather, in which each rank of RingCollectives sends 2(n-1)/n * N bytes in total.
void ordered_sum(Collectives& collectives, int rank, int size, std::span<double> values,
                 OrderedSumStaging& staging);

/// ReduceOp::kAdasum over any Collectives. (Source: Maleki et al., "Scaling distributed training
/// with adaptive summation", 2020. The paper exchanges data in another way.)
///
/// First, an alltoall gives each rank c the chunk c of the tensors of all ranks. At each level of
/// the tree, the ranks add up the dot products of their chunks (see ordered_sum). The sums are the
/// dot products of the whole tensors. Each rank then combines the pairs of vectors in its chunks.
/// Intermediate vectors are float32, or float64 for float64 tensors. At the end, an allgather
/// distributes the result.
///
/// Cost for n ranks and N bytes: in one alltoall and one allgather, each rank sends 2(n-1)/n * N
/// bytes, as in a ring allreduce. In addition, each of the ceil(log2 n) levels of the tree takes
/// one ordered_sum(), with 3 doubles for each tensor of each pair of vectors. Between calls, the
/// object keeps about 2N bytes of memory, about 2N more for 16-bit tensors, and the staging memory
/// of ordered_sum().
///
/// The order of all additions depends only on the size of a tensor and on n. Results therefore have
/// the same bits with any Collectives and any packing of tensors.
class Adasum {
 public:
  /// `collectives` connects `size` ranks and must outlive this object. `rank` is the number of this
  /// rank.
  Adasum(Collectives& collectives, int rank, int size)
      : collectives_(collectives), rank_(rank), size_(size) {}

  /// Combines each piece of `tensors` in place. The type of the tensors must be a floating-point
  /// type. Collective: all ranks must pass pieces of the same sizes. In float64 tensors, the
  /// magnitudes of nonzero values must be between 1e-140 and 1e140. Otherwise the sums of their
  /// squares may overflow or underflow. Throws InvalidArgument if the type is not a floating-point
  /// type.
  void allreduce(const ScatteredBuffer& tensors);

 private:
  // `vectors` holds one vector for each rank: that rank's values in the chunks of this rank. The
  // result replaces the first vector.
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
