#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/compression/bucket_compressor.h"

namespace horo::collectives {

/// Selects the indices.size() values of largest magnitude and writes their indices to `indices`, in
/// ascending order. Among equal magnitudes, selects the values with the lowest indices. NaN is
/// treated as larger than infinity. Requires indices.size() <= values.size() <= 2^32. Cost: at most
/// four passes over the values, three of which find the threshold by radix selection. The values
/// are not copied.
void select_largest(std::span<const float> values, std::span<std::uint32_t> indices);

/// Top-k sparsification. For each tensor, each rank sends the values of largest magnitude and their
/// indices. The result is the sum or average of the sent values, and zero where no rank sent a
/// value (Aji, Heafield 2017, arXiv 1704.05021). With error feedback, the values that a rank did
/// not send are its residual, which the rank adds to its next gradient (Stich, Cordonnier, Jaggi
/// 2018, arXiv 1809.07599).
///
/// Each rank sends the same fraction of every tensor, rounded up. If all values are finite, the
/// result therefore does not depend on how tensors are packed into buckets. Contributions are added
/// in rank order.
///
/// Cost per bucket if each rank sends k values: one allgather of 8 k bytes per rank, four passes
/// over the values for the selection, and up to five passes for the residual, the result and the
/// sums of squares in figures(). Memory: the residual with error feedback, and 8 k bytes for each
/// rank.
///
/// NaN and infinities count as the largest values, so a rank that has any of them in a tensor sends
/// at least one. If any rank sends such a value, the residuals of the bucket stay unchanged on all
/// ranks.
class TopK final : public BucketCompressor {
 public:
  /// `fraction` is the fraction of each tensor that is sent. It must be in (0, 1]. A tensor must
  /// have at most 2^32 values.
  TopK(std::vector<BucketTensor> tensors, double fraction, bool error_feedback, int rank,
       int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Tensor {
    BucketTensor tensor;
    std::size_t first = 0;  // index of its first value among the sent values
    std::size_t sent = 0;   // number of values that each rank sends
    std::vector<float> residual;
  };
  /// The indices and values that one rank sends, for the whole bucket or for one tensor. Both spans
  /// are parts of gathered_.
  struct Sent {
    std::span<std::uint32_t> places;  ///< indices in the tensor
    std::span<std::uint32_t> values;  ///< the bits of floats

    Sent of(const Tensor& tensor) const {
      return {places.subspan(tensor.first, tensor.sent), values.subspan(tensor.first, tensor.sent)};
    }
  };

  Sent sent_by(int rank);
  static void select(Tensor& tensor, const Sent& own);
  bool is_all_finite();
  void keep_rest(Tensor& tensor, const Sent& own);
  void add_up(Tensor& tensor, ReduceOp op);

  bool error_feedback_;
  int rank_;
  int ranks_;
  std::size_t bytes_ = 0;
  std::size_t sent_ = 0;  // number of values that each rank sends for the bucket
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> gathered_;
};

}  // namespace horo::collectives
