#pragma once

#include <vector>

#include "collectives/compression/bucket_compressor.h"
#include "collectives/compression/low_rank.h"

namespace horo::collectives {

/// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv 1905.13727). M is a rank's gradient plus the
/// residual that the rank has kept from the previous step. Q is a factor that is equal on all
/// ranks:
///
///     P = sum of M Q,  orthonormalised;   Q = sum of M^T P;   result P Q^T
///
/// Sums are over the ranks. For kAverage, averages replace the sums. Each step is one power
/// iteration towards the best low-rank approximation of the sum of M. With warm_start, the next
/// step starts with the Q of this step. Otherwise each step starts with a random Q.
///
/// The residual of a rank is M - P (M^T P)^T, which is the part of M outside of the subspace that P
/// spans. The sum (for kAverage, the average) of the residuals of all ranks is the error of the
/// result. Residuals of different ranks may partly cancel in this sum. Without error_feedback, no
/// residual is kept.
///
/// Cost per bucket, for factors of rank r and matrices of n by m: one allreduce of r * sum(n)
/// floats and one of r * sum(m) floats. The first one also covers the uncompressed tensors. Each
/// matrix takes about 8 r n m operations, and about 4 r^2 n for the orthonormalisation. Memory per
/// matrix: n m floats for the residual, if it is kept, and r (n + 3 m) floats for the factors.
///
/// For robustness, this class differs from the paper in three points. First, it scales the vectors
/// of Q to length 1 between steps, which does not change the subspace. Second, a random vector
/// replaces a vector of Q that becomes zero up to rounding, for example because M is zero.
/// Otherwise the vector would stay zero. Third, if a matrix has a value that is not finite on any
/// rank, the matrix becomes NaN on all ranks. That step updates neither the residual nor the factor
/// that the matrix keeps.
class PowerSgd final : public BucketCompressor {
 public:
  struct Options {
    std::size_t rank = 4;
    double min_compression_rate = 2;
    bool warm_start = true;
    bool error_feedback = true;
    std::uint64_t seed = 0;
  };

  /// Whether a matrix of this shape is compressed. This is the case if the matrix has more than
  /// min_compression_rate times as many elements as both factors together.
  static bool compresses(std::size_t rows, std::size_t columns, const Options& options);

  /// `tensors` are the tensors of one bucket. Tensors that are not compressed are reduced exactly.
  /// `ranks` is the number of ranks.
  PowerSgd(std::vector<BucketTensor> tensors, const Options& options, int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Matrix {
    BucketTensor tensor;
    LowRank shape;
    std::span<float> left, right, own_right;  // parts of lefts_, rights_ and own_rights_
    std::vector<float> residual;
    std::vector<float> factor;  // Q at the start of the next step
    bool is_finite = true;      // whether P of the current step is finite

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
  std::vector<std::size_t> matrix_of_;  // by tensor; kNone if not compressed
  std::vector<float> lefts_;            // P of all matrices
  std::vector<float> rights_;           // Q of all matrices
  std::vector<float> own_rights_;       // M^T P of all matrices, of this rank alone
  ScatteredBuffer first_;               // lefts_ and the uncompressed tensors
  ScatteredBuffer second_;              // rights_
  std::size_t bytes_ = 0;
};

}  // namespace horo::collectives
