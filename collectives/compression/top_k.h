#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/compression/bucket_compressor.h"

namespace horo::collectives {

/// Writes the indices of the indices.size() values of largest magnitude to `indices`, in ascending
/// order. Among equal magnitudes, the lowest indices are selected. NaN counts as larger than
/// infinity. Requires indices.size() <= values.size() <= 2^32. Cost: four passes over the values,
/// three of which find the threshold by radix selection; no copy of the values.
void select_largest(std::span<const float> values, std::span<std::uint32_t> indices);

/// Top-k sparsification. Each rank sends the values of largest magnitude of each tensor with their
/// indices. The result is the sum or average of the values sent, and zero elsewhere (Aji, Heafield
/// 2017, arXiv 1704.05021). The values that a rank did not send are its residual, which it adds to
/// its next gradient (Stich, Cordonnier, Jaggi 2018, arXiv 1809.07599).
///
/// The same fraction of every tensor is sent. The result therefore does not depend on the packing
/// of tensors into buckets, and small tensors are represented. Contributions are added in rank
/// order.
///
/// Cost per bucket, where each rank sends k values: one allgather of 8 k bytes per rank, four
/// passes over the values to select, and three to build the result. Memory: the residual, and 8 k
/// bytes per rank.
///
/// NaN and infinities count as the largest values. If any rank sends one, residuals stay unchanged.
class TopK final : public BucketCompressor {
 public:
  /// Sends `fraction`, in (0, 1], of each tensor, rounded up. A tensor must have fewer than 2^32
  /// values.
  TopK(std::vector<BucketTensor> tensors, double fraction, bool error_feedback, int rank,
       int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Tensor {
    BucketTensor tensor;
    std::size_t first = 0;  // offset of its values among those sent for the bucket
    std::size_t sent = 0;
    std::vector<float> residual;
  };
  /// One rank's part of gathered_, or the part of it that belongs to one tensor.
  struct Sent {
    std::span<std::uint32_t> places;
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
  std::size_t sent_ = 0;  // values that each rank sends
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> gathered_;
};

}  // namespace horo::collectives
