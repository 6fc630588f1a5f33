#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/backend/philox.h"
#include "ops/nn/layers/dropout.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// backward() clears what forward() has stored, so that a second call without forward() is refused.

// Keeps the output, whose sign determines the derivative. The next layer usually keeps the same
// memory as its input, so this costs no additional memory.
Tensor Relu::forward(Tensor input, const Pass& pass) {
  Tensor output = backend().relu(std::move(input));
  if (pass.training) output_ = output.shared();
  return output;
}

Tensor Relu::backward(Tensor output_gradient, const GradientReady&) {
  const Tensor output = std::exchange(output_, Tensor());
  require_gradient(output.count() > 0, "Relu", output_gradient.shape(), output.shape());
  return backend().relu_backward(std::move(output_gradient), output);
}

// Keeps the input: the derivative of GELU cannot be computed from its output, because GELU is not
// monotonic.
Tensor Gelu::forward(Tensor input, const Pass& pass) {
  Tensor output = backend().gelu(input);
  if (pass.training) input_ = std::move(input);
  return output;
}

Tensor Gelu::backward(Tensor output_gradient, const GradientReady&) {
  const Tensor input = std::exchange(input_, Tensor());
  require_gradient(input.count() > 0, "Gelu", output_gradient.shape(), input.shape());
  return backend().gelu_backward(std::move(output_gradient), input);
}

Dropout::Dropout(const DropoutOptions& options) : options_(options) {
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
  // The key changes in every step. The mask of a sample depends on its global index, so it is the
  // same for any number of ranks.
  choice_ = {shape,
             {.key = pass.device_step == nullptr ? mix(pass.seed, pass.step) : pass.seed,
              .samples = pass.samples.data(),
              .drop_probability = options_.probability,
              .factor = 1.0f / (1.0f - options_.probability),
              .step = pass.device_step},
             Tensor()};
  return backend().dropout(std::move(input), choice_->draw, choice_->mask);
}

Tensor Dropout::backward(Tensor output_gradient, const GradientReady&) {
  std::optional<Choice> choice = std::exchange(choice_, std::nullopt);
  require_gradient(choice.has_value(), "Dropout", output_gradient.shape(),
                   choice ? choice->shape : Shape());
  return backend().dropout(std::move(output_gradient), choice->draw, choice->mask);
}

}  // namespace horo::ops
