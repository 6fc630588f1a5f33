#include "ops/nn/layers/flatten.h"

#include <utility>

#include "ops/nn/shape_checks.h"

namespace horo::ops {

// require_input() rejects tensors without elements, so input[0] is not 0.
Shape flattened(const Shape& input) {
  require_input(input.rank() >= 1, "Flatten", input, "[batch, ...]");
  return {input[0], input.count() / input[0]};
}

Tensor Flatten::forward(Tensor input, const Pass& pass) {
  const Shape shape = input.shape();
  const Shape flat = flattened(shape);
  if (pass.training) shape_ = shape;
  return backend().in_host_order(std::move(input), backend().type()).reshaped(flat);
}

Tensor Flatten::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Flatten", output_gradient.shape(),
                   shape ? flattened(*shape) : Shape());
  return backend().in_own_order(std::move(output_gradient).reshaped(*shape), backend().type());
}

}  // namespace horo::ops
