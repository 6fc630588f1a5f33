#pragma once

#include <cstddef>
#include <memory>

#include "ops/backend/backend.h"

namespace horo::ops {

/// Replaces matrices of one shape by matrices that are nearly orthogonal: with X = U S V^T, the
/// result is U S' V^T where the singular values in S' are about 0.7 to 1.2. Five steps of
///   A = X X^T;  X = a X + (b A + c A A) X,
/// whose coefficients make small singular values grow fastest. Products are in float32 on the
/// backend; on a device nothing blocks. Cost: 5 products of s x s x l and of s x s x s and again s
/// x s x l, where s is the shorter side and l the longer. Source: Jordan et al., "Muon: an
/// optimizer for hidden layers in neural networks" (2024).
class Orthogonaliser {
 public:
  /// `backend` must outlive this.
  Orthogonaliser(Backend& backend, std::size_t rows, std::size_t columns);

  /// Overwrites `matrix` [rows, columns], float32, in the memory of the backend. Its Frobenius norm
  /// must be at most 1; a norm of 0 is allowed.
  void apply(Tensor& matrix);

 private:
  /// y = a * x + b * y.
  void combine(Tensor& y, float b, const Tensor& x, float a);

  Backend& backend_;
  const std::size_t rows_, columns_;
  // The operations of fully connected layers compute all products, without a transposition.
  std::unique_ptr<WeightedOperation> with_matrix_, square_;
};

}  // namespace horo::ops
