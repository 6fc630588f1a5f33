#include "ops/nn/layers/weighted_layer.h"

#include <utility>

#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// Without a bias, bias_ has no values: its address is null, and the operations ignore it.
WeightedLayer::WeightedLayer(Options options)
    : options_(std::move(options)), weight_(make_parameter("weight", options_.weight)) {
  if (options_.bias) bias_ = make_parameter("bias", {options_.weight[0]});
}

Tensor WeightedLayer::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(make_plan(shape)); });
  Tensor output = backend().allocate(plan->output);
  plan->operation->forward(std::as_const(input).raw(), weight_.computed().raw(),
                           bias_.computed().raw(), output.raw());
  if (pass.training) {
    // The gradient of the weights needs the input. The output is not needed, only its shape.
    plan_ = plan;
    input_ = std::move(input);
  }
  return output;
}

Tensor WeightedLayer::backward(Tensor output_gradient, const GradientReady& ready) {
  const auto plan = std::exchange(plan_, nullptr);
  require_gradient(plan != nullptr, options_.kind, output_gradient.shape(),
                   plan ? plan->output : Shape());
  const Tensor input = std::exchange(input_, Tensor());
  // The gradients of the weights come first, so that their exchange overlaps with the gradient by
  // the input.
  plan->operation->backward_weights(input.raw(), output_gradient.raw(), weight_.gradient.raw(),
                                    bias_.gradient.raw());
  report(parameters(), ready);
  if (!options_.input_gradient) return Tensor();
  Tensor input_gradient = backend().allocate(input.shape());
  plan->operation->backward_data(weight_.computed().raw(), output_gradient.raw(),
                                 input_gradient.raw());
  return input_gradient;
}

std::vector<Parameter*> WeightedLayer::parameters() {
  if (!options_.bias) return {&weight_};
  return {&weight_, &bias_};
}

void WeightedLayer::on_move() {
  plans_ = {};
  plan_ = nullptr;
  input_ = Tensor();
}

}  // namespace horo::ops
