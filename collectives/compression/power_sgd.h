#pragma once

#include <vector>

#include "collectives/compression/bucket_compressor.h"
#include "collectives/compression/low_rank.h"

namespace horo::collectives {

/// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv 1905.13727): with M the gradient plus the
/// residual of each rank, and Q a factor that all ranks share,
///
///     P = sum of M Q,  orthonormalised;   Q = sum of M^T P;   result P Q^T
///
/// (sums or averages over the ranks; one power iteration towards the best approximation of the sum
/// of M). The residual of a rank is M - P (M^T P)^T, what the common subspace misses of its own M;
/// so the residuals add up to what the result misses of the sum. (Parts outside of the subspace
/// that cancel between the ranks are never sent; they gather in the residuals, and cancel there.)
/// The next step begins with Q.
///
/// Cost per bucket, with r the rank and M of n by m: two allreduces, of r times the sum of n (and
/// with it the tensors that are not compressed, which are exact) and of r times the sum of m
/// floats; 8 r n m operations. Memory: n m floats of residual and r m of factor.
///
/// Departures from the paper, for safety: vectors of Q are scaled to length 1 between steps, which
/// does not change the subspace, and one that vanished (a zero or rank-deficient M) is replaced by
/// a random one, as it could never recover. If a matrix meets a value that is not finite, on any
/// rank, it ends as NaN and its residual and factor stay as they were.
class PowerSgd final : public BucketCompressor {
 public:
  struct Options {
    std::size_t rank = 4;
    double min_compression_rate = 2;
    bool warm_start = true;
    bool error_feedback = true;
    std::uint64_t seed = 0;
  };

  /// Whether a matrix of this shape is compressed.
  static bool compresses(std::size_t rows, std::size_t columns, const Options& options);

  /// `tensors`: of one bucket; those that are not compressed are reduced as they are.
  PowerSgd(std::vector<BucketTensor> tensors, const Options& options, int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Matrix {
    BucketTensor tensor;
    LowRank shape;
    std::span<float> left, right, own_right;  // of the buffers below
    std::vector<float> residual;
    std::vector<float> factor;  // what the next step begins with
    bool is_finite = true;      // of this step

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
  std::vector<std::size_t> matrix_of_;  // of a tensor; kNone
  std::vector<float> lefts_;            // of all matrices
  std::vector<float> rights_;           // reduced over the ranks
  std::vector<float> own_rights_;       // of this rank
  ScatteredBuffer first_;               // lefts_, and the tensors that are not compressed
  ScatteredBuffer second_;              // rights_
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
