#include "ops/nn/fusion/norm_relu.h"

#include "ops/nn/fusion/stage_walk.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// The derivative of ReLU depends only on the sign of its output.
Tensor NormRelu::forward(Tensor input, const Pass& pass) {
  Tensor output = naming(name_, [&] { return norm_.forward_relu(std::move(input), {}, pass); });
  if (pass.training) output_ = output.shared();
  return output;
}

Tensor NormRelu::backward(Tensor output_gradient, const GradientReady& ready) {
  const Tensor output = std::exchange(output_, Tensor());
  return naming(name_, [&] {
    require_gradient(output.count() > 0, "BatchNorm", output_gradient.shape(), output.shape());
    return norm_.backward_relu(std::move(output_gradient), output, ready);
  });
}

}  // namespace horo::ops
