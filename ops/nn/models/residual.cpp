#include "ops/nn/models/residual.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::ops {

// Layers of the branch overwrite only memory that no other tensor shares.
Tensor Residual::forward(Tensor input, const Pass& pass) {
  Tensor branch = branch_.forward(input.shared(), pass);
  HORO_CHECK(branch.shape() == input.shape(),
             fmt::format("Residual: the branch has the output shape {} for an input of shape {}; "
                         "expected the same shape",
                         branch.shape().to_string(), input.shape().to_string()));
  return backend().add(std::move(branch), input);
}

Tensor Residual::backward(Tensor output_gradient, const GradientReady& ready) {
  Tensor branch = branch_.backward(output_gradient.shared(), ready);
  return backend().add(std::move(branch), output_gradient);
}

}  // namespace horo::ops
