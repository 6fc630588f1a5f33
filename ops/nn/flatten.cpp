#include "ops/nn/flatten.h"

#include <utility>

#include "ops/nn/shape_checks.h"

namespace horo::ops {
namespace {

Shape flat(const Shape& shape) { return {shape[0], shape.count() / shape[0]}; }

}  // namespace

Tensor Flatten::forward(Tensor input, const Pass& pass) {
  const Shape shape = input.shape();
  require_input(shape.rank() >= 1, "Flatten", shape, "[batch, ...]");
  if (pass.training) shape_ = shape;
  return std::move(input).reshaped(flat(shape));
}

Tensor Flatten::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Flatten", output_gradient.shape(),
                   shape ? flat(*shape) : Shape());
  return std::move(output_gradient).reshaped(*shape);
}

}  // namespace horo::ops
