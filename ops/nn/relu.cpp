#include "ops/nn/relu.h"

#include <utility>

#include "ops/kernels/cpu/relu.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

Tensor Relu::forward(Tensor input, const Pass& pass) {
  if (!pass.training) {
    cpu::relu_forward(input.values());
    return input;
  }
  passed_.resize(input.count());
  cpu::relu_forward(input.values(), passed_);
  shape_ = input.shape();
  return input;
}

Tensor Relu::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Relu", output_gradient.shape(), shape.value_or(Shape()));
  cpu::relu_backward(output_gradient.values(), passed_);
  return output_gradient;
}

}  // namespace horo::ops
