#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/compression/bucket_compressor.h"

namespace horo::collectives {

/// Writes the indices of the indices.size() values of largest magnitude to `indices`, in ascending
/// order. Among equal magnitudes, the lowest indices are selected. NaN is treated as larger than
/// infinity. Requires indices.size() <= values.size() <= 2^32. Cost: four passes over the values.
/// Three of them find the threshold by radix selection. The values are not copied.
void select_largest(std::span<const float> values, std::span<std::uint32_t> indices);

/// Top-k sparsification. For each tensor, each rank sends the values of largest magnitude and their
/// indices. The result is the sum or average of the sent values, and zero where no rank sent a
/// value (Aji, Heafield 2017, arXiv 1704.05021). With error feedback, the values that a rank did
/// not send are its residual. The rank adds its residual to its next gradient (Stich, Cordonnier,
/// Jaggi 2018, arXiv 1809.07599).
///
/// Each rank sends the same fraction of every tensor. The result therefore does not depend on the
/// packing of tensors into buckets, and values of small tensors are sent too. Contributions are
/// added in rank order.
///
/// Cost per bucket if each rank sends k values: one allgather of 8 k bytes per rank, four passes
/// over the values for the selection, and up to five passes for the residual, the figures and the
/// result. Memory: the residual, and 8 k bytes for each rank of the job.
///
/// NaN and infinities are treated as the largest values. If any rank sends such a value, the
/// residuals of all ranks stay unchanged.
class TopK final : public BucketCompressor {
 public:
  /// Sends `fraction` of the values of each tensor, rounded up. `fraction` must be in (0, 1]. A
  /// tensor must have at most 2^32 values.
  TopK(std::vector<BucketTensor> tensors, double fraction, bool error_feedback, int rank,
       int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Tensor {
    BucketTensor tensor;
    std::size_t first = 0;  // offset of its values among the values sent for the bucket
    std::size_t sent = 0;
    std::vector<float> residual;
  };
  /// The indices and values that one rank sends, for the whole bucket or for one tensor. Both are
  /// parts of gathered_.
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
