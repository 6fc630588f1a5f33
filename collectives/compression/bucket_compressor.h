#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/collectives.h"
#include "horo/base/compression.h"

namespace horo::collectives {

/// A float32 tensor of a bucket, viewed as a row-major matrix. The number of rows is the first
/// dimension of the tensor, and the number of columns is the product of its other dimensions. The
/// memory is borrowed.
struct BucketTensor {
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::uint64_t key = 0;  ///< unique per tensor, equal on all ranks

  std::size_t count() const { return rows * columns; }
  std::span<float> span() const { return {values, count()}; }
};

/// Reduces the tensors of one bucket approximately, in order to send fewer bytes than an allreduce.
/// Only one thread at a time may use the object.
class BucketCompressor {
 public:
  virtual ~BucketCompressor() = default;

  /// Replaces the tensors by an approximation of their sum or average over the ranks. Collective.
  /// All ranks get the same bits. `step` is the number of the step, from 0 on, and must be the same
  /// on all ranks.
  virtual void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) = 0;

  /// The state that one tensor keeps from step to step, in memory of the compressor. If a saved
  /// state is restored, the next steps compute the same bits as the steps that followed the save.
  struct Memory {
    std::span<float> residual;  ///< differs between ranks
    std::span<float> factor;    ///< the same on all ranks
  };
  virtual Memory memory_of(std::size_t tensor) = 0;

  /// The figures of the latest allreduce().
  const CompressionFigures& figures() const { return figures_; }

 protected:
  CompressionFigures figures_;
};

/// Returns the number of bytes that each of `ranks` ranks sends in a ring allreduce of `bytes`
/// bytes.
inline std::uint64_t ring_bytes(std::size_t bytes, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return 2 * (n - 1) * bytes / n;
}

}  // namespace horo::collectives
