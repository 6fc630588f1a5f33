#include "ops/optim/orthogonaliser.h"

#include <algorithm>
#include <utility>

#include "ops/backend/device/elementwise.h"

namespace horo::ops {
namespace {

constexpr int kSteps = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

}  // namespace

// A product with the matrix on the shorter side. A wide matrix X is used as weights [out, in]:
// forward(X) is X X^T, and backward_data(B) is B X. A tall one is used as input [batch, in]: the
// gradient of the weights is X^T X, and forward() with the symmetric weights B is X B.
Orthogonaliser::Orthogonaliser(Backend& backend, std::size_t rows, std::size_t columns)
    : backend_(backend), rows_(rows), columns_(columns) {
  const std::size_t side = std::min(rows, columns);
  const auto linear = [&](std::size_t batch, std::size_t in, std::size_t out) {
    return backend.operations().linear(
        {.batch = batch, .in_features = in, .out_features = out, .has_bias = false},
        DataType::kFloat32);
  };
  with_matrix_ = linear(rows, columns, side);
  square_ = linear(side, side, side);
}

void Orthogonaliser::apply(Tensor& matrix) {
  const std::size_t side = std::min(rows_, columns_);
  Tensor square = backend_.allocate({side, side}, DataType::kFloat32);
  Tensor polynomial = backend_.allocate({side, side}, DataType::kFloat32);
  Tensor product = backend_.allocate({rows_, columns_}, DataType::kFloat32);
  const bool is_tall = rows_ > columns_;
  for (int step = 0; step < kSteps; ++step) {
    if (is_tall)
      with_matrix_->backward_weights(matrix.raw(), matrix.raw(), square.raw(), nullptr);
    else
      with_matrix_->forward(matrix.raw(), matrix.raw(), nullptr, square.raw());
    square_->forward(square.raw(), square.raw(), nullptr, polynomial.raw());
    combine(polynomial, kC, square, kB);
    if (is_tall)
      with_matrix_->forward(matrix.raw(), polynomial.raw(), nullptr, product.raw());
    else
      with_matrix_->backward_data(matrix.raw(), polynomial.raw(), product.raw());
    combine(matrix, kA, product, 1);
  }
}

void Orthogonaliser::combine(Tensor& y, float b, const Tensor& x, float a) {
  if (device::Stream* const stream = backend_.device_stream())
    return device_kernels::combine(*stream, y.data(), b, x.data(), a, y.count());
  const auto values = y.values();
  const auto added = x.values();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = a * added[i] + b * values[i];
}

}  // namespace horo::ops
