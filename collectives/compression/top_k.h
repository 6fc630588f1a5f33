#pragma once

#include <vector>

#include "collectives/compression/bucket_compressor.h"

namespace horo::collectives {

/// Each rank sends the values of largest magnitude of each tensor, with their places; the result is
/// the sum or average of what was sent and zero elsewhere (Aji, Heafield 2017, arXiv 1704.05021).
/// What a rank did not send is its residual, which it adds to its next gradient (Stich,
/// Cordonnier, Jaggi 2018, arXiv 1809.07599). Of every tensor the same part is sent, so that the
/// result does not depend on how tensors are packed into buckets and small tensors are not left
/// out. Equal magnitudes: the lower index. Added in rank order.
///
/// Cost per bucket, with k the values that are sent: one allgather of 8 k bytes of each rank; four
/// passes over the values to select, three to build the result. Memory: the residual, and 8 k bytes
/// for each rank.
///
/// NaN and infinities are the largest values. If a rank sends one, residuals stay as they were.
class TopK final : public BucketCompressor {
 public:
  /// `fraction` in (0, 1] of each tensor is sent, rounded up. Tensors have less than 2^32 values.
  TopK(std::vector<BucketTensor> tensors, double fraction, bool error_feedback, int rank,
       int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Tensor {
    BucketTensor tensor;
    std::size_t first = 0;  // of its places among those of the bucket
    std::size_t sent = 0;
    std::vector<float> residual;
  };
  /// One rank's part of gathered_, or what of it belongs to one tensor.
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
  std::size_t sent_ = 0;  // values of a rank
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> gathered_;
};

}  // namespace horo::collectives
