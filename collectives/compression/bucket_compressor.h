#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/collectives.h"
#include "horo/base/compression.h"

namespace horo::collectives {

/// A float32 tensor of a bucket, as a row-major matrix: its first dimension by the product of the
/// others. The memory is borrowed.
struct BucketTensor {
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::uint64_t key = 0;  ///< unique per tensor, equal on all ranks

  std::size_t count() const { return rows * columns; }
  std::span<float> span() const { return {values, count()}; }
};

/// Reduces the tensors of one bucket approximately, with fewer bytes than an allreduce. Used by one
/// thread at a time.
class BucketCompressor {
 public:
  virtual ~BucketCompressor() = default;

  /// Replaces the tensors by an approximation of their sum or average over the ranks. Collective;
  /// all ranks end with the same bits. `step` counts from 0 and is the same on all ranks.
  virtual void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) = 0;

  /// The state that one tensor carries from step to step, in memory of the compressor. Restoring a
  /// saved state makes the next steps bit-identical.
  struct Memory {
    std::span<float> residual;  ///< differs between ranks
    std::span<float> factor;    ///< the same on all ranks
  };
  virtual Memory memory_of(std::size_t tensor) = 0;

  /// Figures of the latest allreduce().
  const CompressionFigures& figures() const { return figures_; }

 protected:
  CompressionFigures figures_;
};

/// Bytes that each of `ranks` ranks sends in a ring allreduce of `bytes`.
inline std::uint64_t ring_bytes(std::size_t bytes, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return 2 * (n - 1) * bytes / n;
}

}  // namespace horo::collectives
