#pragma once

#include <vector>

#include "collectives/compression/bucket_compressor.h"
#include "collectives/compression/low_rank.h"

namespace horo::collectives {

/// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv 1905.13727). M is a rank's gradient plus its
/// residual, and Q is a factor that all ranks share:
///
///     P = sum of M Q,  orthonormalised;   Q = sum of M^T P;   result P Q^T
///
/// Sums (or averages) are over the ranks. This is one power iteration towards the best low-rank
/// approximation of the sum of M. The next step starts with Q.
///
/// The residual of a rank is M - P (M^T P)^T, the part of its M outside of the common subspace. The
/// residuals add up to the error of the result. Parts outside of the subspace that cancel between
/// ranks are never sent; they accumulate in the residuals and cancel there.
///
/// Cost per bucket, for rank r and matrices of n by m: two allreduces, of r * sum(n) floats (plus
/// the uncompressed tensors, which are exact) and of r * sum(m) floats, and 8 r n m operations.
/// Memory: n m floats of residual and r m floats of factor per matrix.
///
/// For robustness, this differs from the paper in two points. Vectors of Q are scaled to length 1
/// between steps, which does not change the subspace. A vector that vanished (M is zero or
/// rank-deficient) is replaced by a random one, because it could not recover. If any rank has a
/// value that is not finite, the matrix becomes NaN on all ranks, and its residual and factor stay
/// unchanged.
class PowerSgd final : public BucketCompressor {
 public:
  struct Options {
    std::size_t rank = 4;
    double min_compression_rate = 2;
    bool warm_start = true;
    bool error_feedback = true;
    std::uint64_t seed = 0;
  };

  /// Whether a matrix of this shape is compressed: the factors must be smaller by at least
  /// min_compression_rate.
  static bool compresses(std::size_t rows, std::size_t columns, const Options& options);

  /// `tensors` are the tensors of one bucket. Tensors that are not compressed are reduced exactly.
  PowerSgd(std::vector<BucketTensor> tensors, const Options& options, int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Matrix {
    BucketTensor tensor;
    LowRank shape;
    std::span<float> left, right, own_right;  // parts of the buffers below
    std::vector<float> residual;
    std::vector<float> factor;  // Q of the next step
    bool is_finite = true;      // in the current step

    std::span<float> vector(std::span<float> of, std::size_t k) const {
      return of.subspan(k * shape.columns, shape.columns);
    }
  };

  void add_matrix(const BucketTensor& tensor);
  void place_factors();
  void draw(Matrix& matrix, std::size_t vector, std::uint64_t step) const;
  void begin(Matrix& matrix, std::uint64_t step) const;
  static void project(Matrix& matrix);
  void finish(Matrix& matrix, std::uint64_t step);
  void renew_factor(Matrix& matrix, std::uint64_t step) const;

  Options options_;
  int ranks_;
  std::vector<Matrix> matrices_;
  std::vector<std::size_t> matrix_of_;  // by tensor; kNone: not compressed
  std::vector<float> lefts_;            // P of all matrices
  std::vector<float> rights_;           // Q of all matrices, summed over the ranks
  std::vector<float> own_rights_;       // Q of all matrices, of this rank
  ScatteredBuffer first_;               // lefts_ and the uncompressed tensors
  ScatteredBuffer second_;              // rights_
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
