#include "ops/train/update/outer_fragment.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace horo::ops {
namespace {

std::deque<Parameter> outer_parameters(std::span<Parameter* const> own) {
  std::deque<Parameter> outer;
  for (const Parameter* parameter : own)
    outer.push_back({.name = parameter->name,
                     .value = parameter->value.clone(),
                     .gradient = Tensor::zeros(parameter->value.shape())});
  return outer;
}

std::vector<Parameter*> pointers_to(std::deque<Parameter>& parameters) {
  std::vector<Parameter*> pointers;
  for (Parameter& parameter : parameters) pointers.push_back(&parameter);
  return pointers;
}

std::vector<NamedTensor> changes_of(std::deque<Parameter>& parameters) {
  std::vector<NamedTensor> changes;
  for (Parameter& parameter : parameters)
    changes.push_back({parameter.name, parameter.gradient.view()});
  return changes;
}

}  // namespace

OuterFragment::OuterFragment(Context& context, std::span<Parameter* const> own,
                             const std::string& name, const LocalSteps& steps,
                             const OuterExchange& exchange)
    : own_(own.begin(), own.end()),
      outer_(outer_parameters(own)),
      optimizer_(pointers_to(outer_), {.learning_rate = steps.outer_rate,
                                       .momentum = steps.outer_momentum,
                                       .nesterov = steps.outer_momentum > 0}),
      sync_(context, changes_of(outer_),
            {.name = name, .wire = exchange.wire, .compression = exchange.compression}),
      name_(name),
      has_overlap_(steps.overlap > 0) {}

void OuterFragment::launch(std::uint64_t merge_after) {
  for (std::size_t i = own_.size(); i-- > 0;) {
    const auto own = std::as_const(own_[i]->value).values();
    const auto agreed = std::as_const(outer_[i].value).values();
    const std::span<float> change = outer_[i].gradient.values();
    for (std::size_t k = 0; k < change.size(); ++k) change[k] = agreed[k] - own[k];
    sync_.ready(i);
  }
  merge_after_ = static_cast<std::int64_t>(merge_after);
}

void OuterFragment::wait() {
  if (is_reduced_) return;
  sync_.wait();
  is_reduced_ = true;
}

void OuterFragment::update(float mixing) {
  optimizer_.step();
  take_agreed(mixing);
}

void OuterFragment::average() {
  for (Parameter& outer : outer_) {
    const std::span<float> agreed = outer.value.values();
    const auto change = std::as_const(outer.gradient).values();
    for (std::size_t k = 0; k < agreed.size(); ++k) agreed[k] -= change[k];
  }
  take_agreed(0);
}

void OuterFragment::reject() { take_agreed(0); }

void OuterFragment::take_agreed(float mixing) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const std::span<float> own = own_[i]->value.values();
    const auto agreed = std::as_const(outer_[i].value).values();
    if (mixing == 0)  // own values may be NaN
      std::ranges::copy(agreed, own.begin());
    else
      for (std::size_t k = 0; k < own.size(); ++k)
        own[k] = mixing * own[k] + (1 - mixing) * agreed[k];
  }
  merge_after_ = 0;
  is_reduced_ = false;
}

const Parameter* OuterFragment::first_non_finite() const {
  const auto is_bad = [](const Parameter& outer) {
    return !std::ranges::all_of(outer.gradient.values(), [](float x) { return std::isfinite(x); });
  };
  const auto found = std::ranges::find_if(outer_, is_bad);
  return found == outer_.end() ? nullptr : &*found;
}

void OuterFragment::swap_values() {
  for (std::size_t i = 0; i < own_.size(); ++i) std::swap(own_[i]->value, outer_[i].value);
}

std::vector<NamedTensor> OuterFragment::state() {
  if (merge_after_ > 0) wait();
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    tensors.push_back({"value." + own_[i]->name, own_[i]->value.view()});
    if (has_overlap_) tensors.push_back({"change." + own_[i]->name, outer_[i].gradient.view()});
    if (!optimizer_.momentum_buffers().empty())
      tensors.push_back(
          {"outer_momentum." + own_[i]->name, optimizer_.momentum_buffers()[i].view()});
  }
  tensors.push_back({"merge_after." + name_, TensorView(&merge_after_, Shape{1})});
  return tensors;
}

}  // namespace horo::ops
