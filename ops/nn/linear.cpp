#include "ops/nn/linear.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/inner_product.h"
#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

InnerProductShape inner_product_shape(const LinearOptions& options, const Shape& input) {
  require_input(input.rank() == 2 && input[1] == options.in_features, "Linear", input,
                fmt::format("[batch, {}]", options.in_features));
  return {input[0], options.in_features, options.out_features, options.bias};
}

Linear::Linear(const LinearOptions& options) : options_(options) {
  HORO_CHECK(options.in_features > 0 && options.out_features > 0,
             fmt::format("Linear: {} input features, {} output features; each must be at least 1",
                         options.in_features, options.out_features));
  weight_ = make_parameter("weight", {options.out_features, options.in_features});
  if (options.bias) bias_ = make_parameter("bias", {options.out_features});
}

// y [batch, out] = x [batch, in] * W^T + b, where W is [out, in]. The kernel ignores the empty
// bias_ of a layer without a bias.
Tensor Linear::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const InnerProductShape product = inner_product_shape(options_, shape);
  const auto kernel =
      kernels_.get(shape, [&] { return std::make_shared<cpu::InnerProductKernel>(product); });
  Tensor output(Shape{product.batch, product.out_features});
  kernel->forward(input.data(), weight_.value.data(), bias_.value.data(), output.data());
  if (pass.training) {
    kernel_ = kernel;
    input_ = std::move(input);
  }
  return output;
}

// dW = dy^T * x, db = the sum of dy over the batch, dx = dy * W. dW needs the input, so forward()
// keeps it.
Tensor Linear::backward(Tensor output_gradient, const GradientReady& ready) {
  const auto kernel = std::exchange(kernel_, nullptr);
  require_gradient(kernel != nullptr, "Linear", output_gradient.shape(),
                   Shape{input_.shape()[0], options_.out_features});
  const Tensor input = std::exchange(input_, Tensor());
  // The gradients of the weights come first. Their exchange then overlaps with backward_data(),
  // which computes the gradient of the input.
  kernel->backward_weights(input.data(), output_gradient.data(), weight_.gradient.data(),
                           bias_.gradient.data());
  for (const Parameter* parameter : parameters()) {
    if (ready) ready(*parameter);
  }
  if (!options_.input_gradient) return Tensor();
  Tensor input_gradient(input.shape());
  kernel->backward_data(weight_.value.data(), output_gradient.data(), input_gradient.data());
  return input_gradient;
}

std::vector<Parameter*> Linear::parameters() {
  if (!options_.bias) return {&weight_};
  return {&weight_, &bias_};
}

}  // namespace horo::ops
