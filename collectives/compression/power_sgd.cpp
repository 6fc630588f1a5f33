#include "collectives/compression/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collectives/compression/lane_sum.h"
#include "collectives/compression/low_rank.h"
#include "horo/base/hash.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
// A vector of a factor counts as zero if its length is at most this fraction of the length of the
// longest vector.
constexpr double kVanished = 1e-6;

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

// Scales a vector to length 1. A zero vector stays zero.
void normalise(std::span<float> vector) {
  const double norm = std::sqrt(sum_of_squares(vector));
  const double scale = norm > 0 ? 1 / norm : 0;
  for (float& x : vector) x = static_cast<float>(x * scale);
}

}  // namespace

bool PowerSgd::compresses(std::size_t rows, std::size_t columns, const Options& options) {
  const std::size_t rank = std::min({options.rank, rows, columns});
  const auto factors =
      static_cast<double>(rank) * (static_cast<double>(rows) + static_cast<double>(columns));
  return factors * options.min_compression_rate <
         static_cast<double>(rows) * static_cast<double>(columns);
}

PowerSgd::PowerSgd(std::vector<BucketTensor> tensors, const Options& options, int ranks)
    : options_(options), ranks_(ranks), first_(DataType::kFloat32), second_(DataType::kFloat32) {
  for (const BucketTensor& tensor : tensors) {
    const bool is_compressed = compresses(tensor.rows, tensor.columns, options);
    matrix_of_.push_back(is_compressed ? matrices_.size() : kNone);
    if (is_compressed) add_matrix(tensor);
    bytes_ += tensor.span().size_bytes();
  }
  place_factors();
  first_.add(lefts_.data(), lefts_.size());
  second_.add(rights_.data(), rights_.size());
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (matrix_of_[t] == kNone) first_.add(tensors[t].values, tensors[t].count());
}

void PowerSgd::add_matrix(const BucketTensor& tensor) {
  Matrix& matrix = matrices_.emplace_back();
  matrix.tensor = tensor;
  matrix.shape = {tensor.rows, tensor.columns,
                  std::min({options_.rank, tensor.rows, tensor.columns})};
  if (options_.error_feedback) matrix.residual.resize(tensor.count());
  matrix.factor.resize(matrix.shape.rank * tensor.columns);
  for (std::size_t k = 0; k < matrix.shape.rank; ++k) draw(matrix, k, 0);
}

// Places the factors of all matrices in three arrays, so that one allreduce covers an array. The
// spans are set after the resizes, because a resize would invalidate them.
void PowerSgd::place_factors() {
  std::size_t left_count = 0;
  std::size_t right_count = 0;
  for (const Matrix& matrix : matrices_) {
    left_count += matrix.shape.rank * matrix.shape.rows;
    right_count += matrix.shape.rank * matrix.shape.columns;
  }
  lefts_.resize(left_count);
  rights_.resize(right_count);
  own_rights_.resize(right_count);
  std::size_t left = 0;
  std::size_t right = 0;
  for (Matrix& matrix : matrices_) {
    matrix.left = std::span(lefts_).subspan(left, matrix.shape.rank * matrix.shape.rows);
    matrix.right = std::span(rights_).subspan(right, matrix.factor.size());
    matrix.own_right = std::span(own_rights_).subspan(right, matrix.factor.size());
    left += matrix.left.size();
    right += matrix.right.size();
  }
}

// Draws a random vector of the factor. The random numbers depend on options_.seed, the tensor, the
// step and the index of the vector, and are the same on all ranks.
void PowerSgd::draw(Matrix& matrix, std::size_t vector, std::uint64_t step) const {
  const std::span<float> values = matrix.vector(matrix.factor, vector);
  fill_with_random(values,
                   Hash().add(options_.seed).add(matrix.tensor.key).add(step).add(vector).value());
  normalise(values);
}

// first_ holds P of all matrices and the uncompressed tensors. second_ holds Q of all matrices. A
// step therefore needs two allreduces for the whole bucket.
void PowerSgd::allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) {
  figures_ = {.bytes_sent = ring_bytes(first_.bytes() + second_.bytes(), ranks_),
              .bytes_uncompressed = ring_bytes(bytes_, ranks_)};
  for (Matrix& matrix : matrices_) begin(matrix, step);
  collectives.allreduce(first_, op);
  for (Matrix& matrix : matrices_) project(matrix);
  std::ranges::copy(own_rights_, rights_.begin());
  collectives.allreduce(second_, op);
  for (Matrix& matrix : matrices_) finish(matrix, step);
}

void PowerSgd::begin(Matrix& matrix, std::uint64_t step) const {
  if (!options_.warm_start)
    for (std::size_t k = 0; k < matrix.shape.rank; ++k) draw(matrix, k, step);
  float* values = matrix.tensor.values;
  for (std::size_t i = 0; i < matrix.residual.size(); ++i) values[i] += matrix.residual[i];
  project_rows(matrix.shape, values, matrix.factor.data(), matrix.left.data());
}

// Computes M^T P of this rank in own_right. allreduce() then reduces a copy of own_right, because
// finish() computes the error of this rank from own_right itself.
void PowerSgd::project(Matrix& matrix) {
  // All ranks have the same reduced P and therefore take the same branch.
  matrix.is_finite = orthonormalise(matrix.left.data(), matrix.shape.rank, matrix.shape.rows);
  if (matrix.is_finite)
    project_columns(matrix.shape, matrix.tensor.values, matrix.left.data(),
                    matrix.own_right.data());
  else
    std::ranges::fill(matrix.own_right, 0.0f);
}

void PowerSgd::finish(Matrix& matrix, std::uint64_t step) {
  float* values = matrix.tensor.values;
  if (!matrix.is_finite || !is_finite(matrix.right)) {
    std::ranges::fill(matrix.tensor.span(), std::numeric_limits<float>::quiet_NaN());
    ++figures_.non_finite;
    return;
  }
  // The figures need the squared error even without error feedback. In that case subtract_product()
  // writes the error to `values`, and multiply() then replaces it by the result.
  float* residual = options_.error_feedback ? matrix.residual.data() : values;
  const double error =
      subtract_product(matrix.shape, values, matrix.left.data(), matrix.own_right.data(), residual);
  figures_.squared_error += error;
  // The error is orthogonal to the projection on P, and the vectors of P are orthonormal or zero.
  // The squares of the error and of own_right therefore add up to the squares of the values.
  figures_.squared_values += error + sum_of_squares(matrix.own_right);
  multiply(matrix.shape, matrix.left.data(), matrix.right.data(), values);
  renew_factor(matrix, step);
}

// With warm_start, the next step starts with the reduced right factor. A random vector replaces a
// vector that counts as zero, which would otherwise stay zero.
void PowerSgd::renew_factor(Matrix& matrix, std::uint64_t step) const {
  if (!options_.warm_start) return;
  double longest = 0;
  for (std::size_t k = 0; k < matrix.shape.rank; ++k)
    longest = std::max(longest, sum_of_squares(matrix.vector(matrix.right, k)));
  std::ranges::copy(matrix.right, matrix.factor.begin());
  for (std::size_t k = 0; k < matrix.shape.rank; ++k) {
    const std::span<float> vector = matrix.vector(matrix.factor, k);
    if (sum_of_squares(vector) > kVanished * kVanished * longest)
      normalise(vector);
    else
      draw(matrix, k, step + 1);
  }
}

BucketCompressor::Memory PowerSgd::memory_of(std::size_t tensor) {
  if (matrix_of_[tensor] == kNone) return {};
  Matrix& matrix = matrices_[matrix_of_[tensor]];
  // Without warm_start, begin() draws a new factor in every step, so the factor is not part of the
  // state.
  if (!options_.warm_start) return {matrix.residual, {}};
  return {matrix.residual, matrix.factor};
}

}  // namespace horo::collectives
