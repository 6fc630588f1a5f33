#include "ops/nn/gelu.h"

#include <utility>

#include "ops/kernels/cpu/gelu.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

Tensor Gelu::forward(Tensor input, const Pass& pass) {
  if (pass.training) input_ = input.clone();
  cpu::gelu_forward(input.values());
  return input;
}

Tensor Gelu::backward(Tensor output_gradient, const GradientReady&) {
  const Tensor input = std::exchange(input_, Tensor());
  require_gradient(input.count() > 0, "Gelu", output_gradient.shape(), input.shape());
  cpu::gelu_backward(output_gradient.values(), input.values());
  return output_gradient;
}

}  // namespace horo::ops
