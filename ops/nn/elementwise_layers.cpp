#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/elementwise.h"
#include "ops/kernels/philox.h"
#include "ops/nn/dropout.h"
#include "ops/nn/gelu.h"
#include "ops/nn/relu.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// These layers work in place: the memory of the input becomes that of the output. Each stores only
// what its backward pass needs, a byte per value for Relu and Dropout and the input for Gelu.
// backward() clears the stored shape or input, so that a second call without forward() is refused.

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

Tensor Gelu::forward(Tensor input, const Pass& pass) {
  // A copy, because the layer overwrites the input, which the derivative needs.
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

Dropout::Dropout(const DropoutOptions& options)
    : options_(options), scale_(1.0f / (1.0f - options.probability)) {
  HORO_CHECK(options.probability >= 0.0f && options.probability < 1.0f,
             fmt::format("Dropout: probability is {}; must be in [0, 1)", options.probability));
}

Tensor Dropout::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  require_input(shape.rank() >= 1, "Dropout", shape, "[batch, ...]");
  if (!pass.training) return input;
  HORO_CHECK(pass.samples.size() == shape[0],
             fmt::format("Dropout: {} sample indices for input {}; expected {}",
                         pass.samples.size(), shape.to_string(), shape[0]));
  kept_.resize(input.count());
  // The key changes in every step. The mask of a sample depends on its global index, so it is the
  // same for any number of ranks.
  cpu::draw_dropout_mask(mix(pass.seed, pass.step), pass.samples, input.count() / shape[0],
                         options_.probability, kept_);
  cpu::apply_dropout(input.values(), kept_, scale_);
  shape_ = shape;
  return input;
}

Tensor Dropout::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Dropout", output_gradient.shape(), shape.value_or(Shape()));
  cpu::apply_dropout(output_gradient.values(), kept_, scale_);
  return output_gradient;
}

}  // namespace horo::ops
