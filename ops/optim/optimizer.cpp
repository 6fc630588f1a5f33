#include "ops/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {

Optimizer::Optimizer(std::vector<Parameter*> parameters)
    : parameters_(std::move(parameters)), factors_(parameters_.size()) {}

void Optimizer::step(const StepGradients& gradients) {
  if (device::Stream* const stream = backend_->device_stream())
    return update_on_device(*stream, gradients);
  HORO_CHECK(gradients.locations.empty() && gradients.factor == nullptr &&
                 gradients.skip == nullptr && gradients.learning_rate == nullptr,
             "an optimizer on the CPU uses the gradients of its parameters");
  update_on_host();
}

void Optimizer::set_rules(std::vector<ParameterRule> rules) {
  factors_ = factors_of(parameters_, rules);
  rules_ = std::move(rules);
}

std::vector<Optimizer::State> Optimizer::states() {
  std::vector<State> states;
  for (OwnedState& state : states_) states.push_back({state.name, state.tensors});
  return states;
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const OwnedState& state : states_)
    for (const Tensor& values : state.tensors) bytes += values.bytes();
  return bytes;
}

std::size_t Optimizer::add_state(std::string_view name) {
  OwnedState& state = states_.emplace_back();
  state.name = name;
  state.tensors.reserve(parameters_.size());
  for (const Parameter* parameter : parameters_)
    state.tensors.push_back(Tensor::zeros(parameter->value.shape()));
  return states_.size() - 1;
}

void Optimizer::divide(std::span<const ParameterPart> parts) {
  HORO_CHECK(!needs_whole_parameters(),
             fmt::format("{}: the update needs whole parameters, so that its state cannot be "
                         "divided between ranks; choose Sgd, Adam or AdamW",
                         describe()));
  HORO_CHECK(wholes_.parameters.empty(), "an optimizer is divided already");
  wholes_ = {std::exchange(parameters_, {}), std::exchange(factors_, {})};
  for (const ParameterPart& part : parts) {
    parameters_.push_back(part.parameter);
    factors_.push_back(wholes_.factors[part.whole]);
  }
  for (OwnedState& state : states_) {
    std::vector<Tensor> own;
    for (const ParameterPart& part : parts) {
      const std::size_t count = part.parameter->value.count();
      const auto values = state.tensors[part.whole].values().subspan(part.first, count);
      std::ranges::copy(values, own.emplace_back(Shape{count}).data());
    }
    state.tensors = std::move(own);
  }
}

void Optimizer::unite(std::vector<std::vector<Tensor>> states) {
  auto wholes = std::exchange(wholes_, {});
  parameters_ = std::move(wholes.parameters);
  factors_ = std::move(wholes.factors);
  for (std::size_t s = 0; s < states_.size(); ++s) states_[s].tensors = std::move(states[s]);
}

void Optimizer::move_to(Backend& backend) {
  if (backend_ == &backend) return;
  if (backend_->device_stream() != nullptr) leave_device();
  for (OwnedState& state : states_)
    for (Tensor& values : state.tensors)
      if (values.count() > 0) values = backend.from_host(backend_->to_host(values));
  backend_ = &backend;
  if (backend_->device_stream() != nullptr) enter_device();
}

void Optimizer::reset_to(Backend& backend) {
  for (OwnedState& state : states_)
    for (Tensor& values : state.tensors) values = Tensor::zeros(values.shape());
  for (std::int64_t& counter : counters()) counter = 0;
  backend_ = &backend;
}

void check_learning_rate(std::string_view optimizer, float learning_rate) {
  HORO_CHECK(std::isfinite(learning_rate) && learning_rate >= 0,
             fmt::format("{}: learning rate is {}; must be finite and at least 0", optimizer,
                         learning_rate));
}

}  // namespace horo::ops
