#include "ops/nn/fusion/linear_chain.h"

#include <utility>

#include "ops/nn/fusion/stage_walk.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

LinearChain::LinearChain(std::vector<Link> links) : backend_(links.front().linear->backend()) {
  for (Link& link : links) states_.push_back({std::move(link)});
}

std::vector<Layer*> LinearChain::children() {
  std::vector<Layer*> layers;
  for (const State& state : states_) layers.push_back(state.link.linear);
  return layers;
}

LinearChain::LinkPlan LinearChain::plan_of(std::size_t index, const Shape& input) const {
  const Link& link = states_[index].link;
  Operations& operations = backend_.operations();
  const InnerProductShape shape = inner_product_shape(link.linear->options(), input);
  LinkPlan plan{.output = with_features(input, shape.out_features),
                .linear = operations.linear(shape, backend_.type())};
  // Only the last link can lack an activation.
  if (!link.activation) return plan;
  // Prefers a product whose backward pass fuses the activation with the next layer. If the library
  // does not support the shape, tries the forward fusion alone.
  if (index + 1 < states_.size()) {
    const std::size_t next = states_[index + 1].link.linear->options().out_features;
    plan.activated = operations.activated_linear({shape, *link.activation, next}, backend_.type());
    plan.goes_back = plan.activated != nullptr;
  }
  if (!plan.activated)
    plan.activated = operations.activated_linear({shape, *link.activation}, backend_.type());
  return plan;
}

LinearChain::Plan LinearChain::make_plan(const Shape& input) const {
  Plan plan;
  for (std::size_t i = 0; i < states_.size(); ++i)
    plan.push_back(naming(states_[i].link.name,
                          [&] { return plan_of(i, i == 0 ? input : plan.back().output); }));
  return plan;
}

Tensor LinearChain::forward_link(State& state, const LinkPlan& plan, Tensor input,
                                 bool is_training) {
  const auto activation = state.link.activation;
  Linear& linear = *state.link.linear;
  // `kept` is what the gradient of the activation needs. GELU needs its input. ReLU needs the bits
  // of a fused backward product, or its output if the backward pass is not fused.
  Tensor output = backend_.allocate(plan.output), kept;
  if (plan.activated) {
    if (is_training && activation == Activation::kGelu)
      kept = backend_.allocate(plan.output);
    else if (is_training && plan.goes_back)
      kept = backend_.allocate({plan.activated->kept_bytes()}, DataType::kUInt8);
    plan.activated->forward(input.raw(), linear.weight().computed().raw(),
                            linear.bias().computed().raw(), output.raw(), kept.raw());
  } else {
    plan.linear->forward(input.raw(), linear.weight().computed().raw(),
                         linear.bias().computed().raw(), output.raw());
    if (activation == Activation::kGelu)
      kept = std::exchange(output, backend_.gelu(output));
    else if (activation)
      output = backend_.relu(std::move(output));
  }
  if (!is_training) return output;
  if (activation == Activation::kRelu && !plan.goes_back) kept = output.shared();
  state.input = std::move(input);
  state.kept = std::move(kept);
  return output;
}

// Plans are made once per input shape and kept, because they query the library for each product.
Tensor LinearChain::forward(Tensor input, const Pass& pass) {
  const Shape shape = input.shape();
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(make_plan(shape)); });
  for (std::size_t i = 0; i < states_.size(); ++i)
    input = forward_link(states_[i], (*plan)[i], std::move(input), pass.training);
  if (pass.training) plan_ = plan;
  return input;
}

// The activation as a kernel of its own: for a last link with an activation, and where the library
// cannot fuse the backward pass.
Tensor LinearChain::backward_activation(State& state, Tensor gradient) {
  const Tensor kept = std::exchange(state.kept, Tensor());
  return state.link.activation == Activation::kGelu
             ? backend_.gelu_backward(std::move(gradient), kept)
             : backend_.relu_backward(std::move(gradient), kept);
}

// `gradient` is the gradient by the output of the product of link `index`. The result is the same
// for link index - 1. The fused product also writes the gradient of the bias of link index - 1.
Tensor LinearChain::backward_between(std::size_t index, const Plan& plan, const Tensor& gradient) {
  State& before = states_[index - 1];
  const Tensor& weight = states_[index].link.linear->weight().computed();
  Tensor result = backend_.allocate(plan[index - 1].output);
  if (!plan[index - 1].goes_back) {
    plan[index].linear->backward_data(weight.raw(), gradient.raw(), result.raw());
    return backward_activation(before, std::move(result));
  }
  const Tensor kept = std::exchange(before.kept, Tensor());
  plan[index - 1].activated->backward(weight.raw(), gradient.raw(), kept.raw(), result.raw(),
                                      before.link.linear->bias().gradient.raw());
  return result;
}

Tensor LinearChain::backward(Tensor output_gradient, const GradientReady& ready) {
  const auto plan = std::exchange(plan_, nullptr);
  const Link& last = states_.back().link;
  const char* kind = !last.activation                       ? "Linear"
                     : last.activation == Activation::kGelu ? "Gelu"
                                                            : "Relu";
  naming(last.activation ? last.activation_name : last.name, [&] {
    require_gradient(plan != nullptr, kind, output_gradient.shape(),
                     plan ? plan->back().output : Shape());
  });
  Tensor gradient = last.activation
                        ? backward_activation(states_.back(), std::move(output_gradient))
                        : std::move(output_gradient);
  // The gradients of a link's parameters are reported before the product that computes the gradient
  // for the previous link, so that their exchange overlaps with it. The bias of a fused link is
  // complete at this point: backward_between() of the next link has written it.
  for (std::size_t i = states_.size(); i-- > 0;) {
    State& state = states_[i];
    Linear& linear = *state.link.linear;
    const Tensor input = std::exchange(state.input, Tensor());
    // The fused backward product has already summed the gradient of the bias.
    void* const bias_gradient = (*plan)[i].goes_back ? nullptr : linear.bias().gradient.raw();
    (*plan)[i].linear->backward_weights(input.raw(), gradient.raw(), linear.weight().gradient.raw(),
                                        bias_gradient);
    report(linear.parameters(), ready);
    if (i > 0) gradient = backward_between(i, *plan, gradient);
  }
  Linear& first = *states_[0].link.linear;
  if (!first.options().input_gradient) return Tensor();
  Tensor input_gradient =
      backend_.allocate(with_features(gradient.shape(), first.options().in_features));
  (*plan)[0].linear->backward_data(first.weight().computed().raw(), gradient.raw(),
                                   input_gradient.raw());
  return input_gradient;
}

}  // namespace horo::ops
