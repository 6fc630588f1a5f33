#include "ops/nn/device/device_linear_chain.h"

#include <utility>

#include "ops/nn/device/device_parameters.h"
#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/shape_checks.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {

DeviceLinearChain::DeviceLinearChain(std::vector<Link> links, DeviceCompute& compute)
    : compute_(compute) {
  for (Link& link : links) {
    State state;
    const std::size_t out = link.linear.out_features;
    state.weight = make_device_parameter(compute, {out, link.linear.in_features}, compute.type());
    if (link.linear.bias) state.bias = make_device_parameter(compute, {out}, compute.type());
    state.link = std::move(link);
    states_.push_back(std::move(state));
  }
}

std::vector<DeviceParameter*> DeviceLinearChain::State::parameters() {
  if (!link.linear.bias) return {&weight};
  return {&weight, &bias};
}

DeviceLinearChain::LinkPlan DeviceLinearChain::plan_of(std::size_t index,
                                                       const Shape& input) const {
  const Link& link = states_[index].link;
  DeviceMath& math = compute_.math();
  const InnerProductShape shape = inner_product_shape(link.linear, input);
  LinkPlan plan{.output = {shape.batch, shape.out_features},
                .linear = math.linear(shape, compute_.type())};
  // Only the last link can lack an activation.
  if (!link.activation) return plan;
  // Prefers a product whose backward pass fuses the activation with the next layer. If the library
  // does not support the shape, tries the forward fusion alone.
  if (index + 1 < states_.size()) {
    const std::size_t next = states_[index + 1].link.linear.out_features;
    plan.activated = math.activated_linear({shape, *link.activation, next}, compute_.type());
    plan.goes_back = plan.activated != nullptr;
  }
  if (!plan.activated)
    plan.activated = math.activated_linear({shape, *link.activation}, compute_.type());
  return plan;
}

DeviceLinearChain::Plan DeviceLinearChain::make_plan(const Shape& input) const {
  Plan plan;
  for (std::size_t i = 0; i < states_.size(); ++i)
    plan.push_back(naming(states_[i].link.name,
                          [&] { return plan_of(i, i == 0 ? input : plan.back().output); }));
  return plan;
}

Tensor DeviceLinearChain::forward_through(State& state, const LinkPlan& plan, Tensor input,
                                          bool is_training) {
  const auto activation = state.link.activation;
  // `kept` is what the gradient of the activation needs. GELU needs its input. ReLU needs the bits
  // of a fused backward product, or its output if the backward pass is not fused.
  Tensor output = compute_.allocate(plan.output), kept;
  if (plan.activated) {
    if (is_training && activation == Activation::kGelu)
      kept = compute_.allocate(plan.output);
    else if (is_training && plan.goes_back)
      kept = compute_.allocate({plan.activated->kept_bytes()}, DataType::kUInt8);
    plan.activated->forward(input.raw(), computed(state.weight).raw(), computed(state.bias).raw(),
                            output.raw(), kept.raw());
  } else {
    plan.linear->forward(input.raw(), computed(state.weight).raw(), computed(state.bias).raw(),
                         output.raw());
    if (activation == Activation::kGelu)
      kept = std::exchange(output, gelu(compute_, output));
    else if (activation)
      output = relu(compute_, output);
  }
  if (!is_training) return output;
  if (activation == Activation::kRelu && !plan.goes_back) kept = output.shared();
  state.input = std::move(input);
  state.kept = std::move(kept);
  return output;
}

// Plans are made once per input shape and kept, because they query the library for each product.
Tensor DeviceLinearChain::forward(Tensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(make_plan(shape)); });
  for (std::size_t i = 0; i < states_.size(); ++i)
    input = forward_through(states_[i], (*plan)[i], std::move(input), pass.training);
  if (pass.training) plan_ = plan;
  return input;
}

// The activation as a kernel of its own: for a last link with an activation, and where the library
// cannot fuse the backward pass.
Tensor DeviceLinearChain::backward_activation(State& state, const Tensor& gradient) {
  const Tensor kept = std::exchange(state.kept, Tensor());
  return state.link.activation == Activation::kGelu ? gelu_backward(compute_, gradient, kept)
                                                    : relu_backward(compute_, gradient, kept);
}

// `gradient` is the gradient by the output of the product of link `index`. The result is the same
// for link index - 1. The fused product also writes the gradient of the bias of link index - 1.
Tensor DeviceLinearChain::backward_between(std::size_t index, const Plan& plan,
                                           const Tensor& gradient) {
  State& before = states_[index - 1];
  const Tensor& weight = computed(states_[index].weight);
  Tensor result = compute_.allocate(plan[index - 1].output);
  if (!plan[index - 1].goes_back) {
    plan[index].linear->backward_data(weight.raw(), gradient.raw(), result.raw());
    return backward_activation(before, result);
  }
  const Tensor kept = std::exchange(before.kept, Tensor());
  plan[index - 1].activated->backward(weight.raw(), gradient.raw(), kept.raw(), result.raw(),
                                      before.bias.gradient.raw());
  return result;
}

Tensor DeviceLinearChain::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  const auto plan = std::exchange(plan_, nullptr);
  const Link& last = states_.back().link;
  const char* kind = !last.activation                       ? "Linear"
                     : last.activation == Activation::kGelu ? "Gelu"
                                                            : "Relu";
  naming(last.activation ? last.activation_name : last.name, [&] {
    require_gradient(plan != nullptr, kind, output_gradient.shape(),
                     plan ? plan->back().output : Shape());
  });
  Tensor gradient = last.activation ? backward_activation(states_.back(), output_gradient)
                                    : std::move(output_gradient);
  // The gradients of a link's parameters are reported before the product that computes the gradient
  // for the previous link, so that their exchange overlaps with it. The bias of a fused link is
  // complete at this point: backward_between() of the next link has written it.
  for (std::size_t i = states_.size(); i-- > 0;) {
    State& state = states_[i];
    const Tensor input = std::exchange(state.input, Tensor());
    // The fused backward product has already summed the gradient of the bias.
    void* const bias_gradient = (*plan)[i].goes_back ? nullptr : state.bias.gradient.raw();
    (*plan)[i].linear->backward_weights(input.raw(), gradient.raw(), state.weight.gradient.raw(),
                                        bias_gradient);
    report(state.parameters(), ready);
    if (i > 0) gradient = backward_between(i, *plan, gradient);
  }
  if (!states_[0].link.linear.input_gradient) return Tensor();
  Tensor input_gradient =
      compute_.allocate({gradient.shape()[0], states_[0].link.linear.in_features});
  (*plan)[0].linear->backward_data(computed(states_[0].weight).raw(), gradient.raw(),
                                   input_gradient.raw());
  return input_gradient;
}

std::vector<DeviceParameter*> DeviceLinearChain::parameters() {
  std::vector<DeviceParameter*> all;
  for (State& state : states_) all = joined(std::move(all), state.parameters());
  return all;
}

}  // namespace horo::ops
