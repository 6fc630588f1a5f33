#include "ops/backend/cpu/attention.h"

#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "horo/base/error.h"
#include "ops/backend/cpu/vector_clones.h"
#include "ops/backend/cpu/vector_math.h"

namespace horo::ops::cpu {
namespace {

/// A matrix of one head in row-major order; consecutive rows are `stride` values apart.
template <typename T>
struct Matrix {
  T* data;
  std::size_t rows, columns, stride;
};

enum class Transposed { kNo, kYes };

/// c = factor * a * b; `a` and `b` are transposed as given. Called in a parallel region, in which
/// oneDNN computes on the calling thread.
bool multiply(float factor, const Matrix<const float>& a, Transposed a_is,
              const Matrix<const float>& b, Transposed b_is, const Matrix<float>& c) {
  const auto dim = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  return dnnl_sgemm(a_is == Transposed::kYes ? 'T' : 'N', b_is == Transposed::kYes ? 'T' : 'N',
                    dim(c.rows), dim(c.columns), dim(a_is == Transposed::kYes ? a.rows : a.columns),
                    factor, a.data, dim(a.stride), b.data, dim(b.stride), 0.0f, c.data,
                    dim(c.stride)) == dnnl_success;
}

/// Replaces row p of the scores by the softmax of its first p + 1 values, and sets the others to
/// zero.
HORO_VECTOR_CLONES void causal_softmax(const Matrix<float>& scores) {
  for (std::size_t row = 0; row < scores.rows; ++row) {
    float* const values = scores.data + row * scores.stride;
    const std::size_t count = row + 1;
    float largest = values[0], sum = 0;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < count; ++i) largest = values[i] > largest ? values[i] : largest;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < count; ++i) sum += values[i] = exp_in_loop(values[i] - largest);
    const float factor = 1 / sum;
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
    for (std::size_t i = count; i < scores.columns; ++i) values[i] = 0;
  }
}

/// Replaces the gradients by the probabilities with those by the scores: p (g - sum of p g).
HORO_VECTOR_CLONES void causal_softmax_backward(const Matrix<float>& gradients,
                                                const Matrix<const float>& probabilities) {
  for (std::size_t row = 0; row < gradients.rows; ++row) {
    float* const g = gradients.data + row * gradients.stride;
    const float* const p = probabilities.data + row * probabilities.stride;
    const std::size_t count = row + 1;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < count; ++i) sum += p[i] * g[i];
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) g[i] = p[i] * (g[i] - sum);
    for (std::size_t i = count; i < gradients.columns; ++i) g[i] = 0;
  }
}

/// The matrices of one head.
struct Head {
  const AttentionShape& shape;
  std::size_t sequence, head;

  Head(const AttentionShape& shape_, std::size_t index)
      : shape(shape_), sequence(index / shape_.heads), head(index % shape_.heads) {}

  /// `part` 0: queries, 1: keys, 2: values.
  template <typename T>
  Matrix<T> part_of(std::span<T> qkv, std::size_t part) const {
    const std::size_t width = shape.width(), row = 3 * width;
    return {qkv.data() + sequence * shape.positions * row + part * width + head * shape.head_size,
            shape.positions, shape.head_size, row};
  }
  template <typename T>
  Matrix<T> output_in(std::span<T> y) const {
    return {y.data() + sequence * shape.positions * shape.width() + head * shape.head_size,
            shape.positions, shape.head_size, shape.width()};
  }
  template <typename T>
  Matrix<T> square_in(std::span<T> squares, std::size_t index) const {
    const std::size_t positions = shape.positions;
    return {squares.data() + index * positions * positions, positions, positions, positions};
  }
};

Matrix<const float> read_only(const Matrix<float>& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, matrix.stride};
}

float score_factor(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_size));
}

// Exceptions must not leave a parallel region, so failures are counted there.
void require_no_failure(int failures) {
  if (failures > 0) throw Error("attention: oneDNN failed to multiply matrices");
}

constexpr auto kNo = Transposed::kNo;
constexpr auto kYes = Transposed::kYes;

}  // namespace

void attention_forward(const AttentionShape& shape, std::span<const float> qkv, std::span<float> y,
                       std::span<float> probabilities) {
  int failures = 0;
#pragma omp parallel for schedule(static) reduction(+ : failures)
  for (std::size_t i = 0; i < shape.batch * shape.heads; ++i) {
    const Head head(shape, i);
    const auto scores = head.square_in(probabilities, i);
    bool is_done = multiply(score_factor(shape), head.part_of(qkv, 0), kNo, head.part_of(qkv, 1),
                            kYes, scores);
    causal_softmax(scores);
    is_done &= multiply(1, read_only(scores), kNo, head.part_of(qkv, 2), kNo, head.output_in(y));
    failures += is_done ? 0 : 1;
  }
  require_no_failure(failures);
}

// With the probabilities P: dV = P^T dY, dP = dY V^T, dS = P (dP - rowsum(P dP)), dQ = dS K and
// dK = dS^T Q, both times the factor of the scores.
void attention_backward(const AttentionShape& shape, std::span<const float> dy,
                        std::span<const float> qkv, std::span<const float> probabilities,
                        std::span<float> dqkv) {
  const float factor = score_factor(shape);
  int failures = 0;
#pragma omp parallel reduction(+ : failures)
  {
    std::vector<float> scratch(shape.positions * shape.positions);
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < shape.batch * shape.heads; ++i) {
      const Head head(shape, i);
      const auto weights = head.square_in(probabilities, i);
      const auto gradient = head.output_in(dy);
      const auto scores = head.square_in(std::span(scratch), 0);
      bool is_done = multiply(1, weights, kYes, gradient, kNo, head.part_of(dqkv, 2));
      is_done &= multiply(1, gradient, kNo, head.part_of(qkv, 2), kYes, scores);
      causal_softmax_backward(scores, weights);
      is_done &= multiply(factor, read_only(scores), kNo, head.part_of(qkv, 1), kNo,
                          head.part_of(dqkv, 0));
      is_done &= multiply(factor, read_only(scores), kYes, head.part_of(qkv, 0), kNo,
                          head.part_of(dqkv, 1));
      failures += is_done ? 0 : 1;
    }
  }
  require_no_failure(failures);
}

}  // namespace horo::ops::cpu
