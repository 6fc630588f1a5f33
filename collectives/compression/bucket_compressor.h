#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/collectives.h"
#include "horo/base/compression.h"

namespace horo::collectives {

/// A float32 tensor of a bucket, viewed as a row-major matrix. The number of rows is the first
/// dimension of the tensor, and the number of columns is the product of its other dimensions. This
/// struct does not own the memory.
struct BucketTensor {
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::uint64_t key = 0;  ///< identifies the tensor; equal on all ranks

  std::size_t count() const { return rows * columns; }
  std::span<float> span() const { return {values, count()}; }
};

/// Reduces the tensors of one bucket approximately, to send fewer bytes than an exact allreduce.
/// Only one thread at a time may use the object.
class BucketCompressor {
 public:
  virtual ~BucketCompressor() = default;

  /// Replaces the tensors by an approximation of their sum or average over the ranks. `op` must be
  /// kSum or kAverage. `step` is the number of the step. Collective: all ranks must pass the same
  /// `op` and `step`. All ranks get the same bits if the allreduces of `collectives` give all ranks
  /// the same bits.
  virtual void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) = 0;

  /// The state of one tensor that is kept from step to step. A span is empty if the tensor has no
  /// such state. The spans refer to memory of the compressor, so a caller can save the state and
  /// write it back. With the same gradients and step numbers, the steps after a restore compute the
  /// same bits as the steps after the save.
  struct Memory {
    std::span<float> residual;  ///< differs between ranks
    std::span<float> factor;    ///< the same on all ranks
  };
  /// Returns the state of the tensor with the index `tensor` in the bucket.
  virtual Memory memory_of(std::size_t tensor) = 0;

  /// The figures of the latest allreduce().
  const CompressionFigures& figures() const { return figures_; }

 protected:
  CompressionFigures figures_;
};

/// Returns the number of bytes that each of `ranks` ranks sends in a ring allreduce of `bytes`
/// bytes, on average over the ranks and rounded down.
inline std::uint64_t ring_bytes(std::size_t bytes, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return 2 * (n - 1) * bytes / n;
}

}  // namespace horo::collectives
