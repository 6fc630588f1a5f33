#include "ops/optim/adamw.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "horo/base/error.h"
#include "horo/device/device.h"
#include "ops/optim/update_groups.h"
#include "ops/optim/update_rules.h"

namespace horo::ops {
namespace {

void check_beta(const char* name, float beta) {
  HORO_CHECK(beta >= 0 && beta < 1, fmt::format("AdamW: {} is {}; must be in [0, 1)", name, beta));
}

void check(const AdamWOptions& options) {
  HORO_CHECK(std::isfinite(options.learning_rate) && options.learning_rate >= 0,
             fmt::format("AdamW: learning rate is {}; must be finite and at least 0",
                         options.learning_rate));
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  HORO_CHECK(options.epsilon > 0,
             fmt::format("AdamW: epsilon is {}; must be above 0", options.epsilon));
  HORO_CHECK(options.weight_decay >= 0,
             fmt::format("AdamW: weight decay is {}; must be at least 0", options.weight_decay));
}

}  // namespace

AdamWRule rule_of(const AdamWOptions& options, std::int64_t step) {
  check(options);
  return {options.learning_rate,
          options.beta1,
          options.beta2,
          options.epsilon,
          options.weight_decay,
          bias_correction(options.beta1, step),
          bias_correction(options.beta2, step)};
}

AdamW::AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  check(options);
  first_.reserve(this->parameters().size());
  second_.reserve(this->parameters().size());
  for (const Parameter* parameter : this->parameters()) {
    first_.push_back(Tensor::zeros(parameter->value.shape()));
    second_.push_back(Tensor::zeros(parameter->value.shape()));
  }
}

void AdamW::set_learning_rate(float learning_rate) {
  AdamWOptions changed = options_;
  changed.learning_rate = learning_rate;
  // Checks a copy first, so that a bad rate leaves the options unchanged.
  check(changed);
  options_ = changed;
}

void AdamW::set_steps(std::int64_t steps) {
  HORO_CHECK(steps >= 0, fmt::format("AdamW: number of steps is {}; must be at least 0", steps));
  steps_ = steps;
}

std::vector<Optimizer::State> AdamW::states() {
  return {{"first_moment", first_}, {"second_moment", second_}};
}

std::string AdamW::describe() const {
  return fmt::format("AdamW with beta1 {}, beta2 {}, epsilon {} and weight decay {}",
                     options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay);
}

void AdamW::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  using device_kernels::AdamWTensor;
  const auto entry = [&](std::size_t i, const GradientLocation& at) {
    Parameter& one = *parameters()[i];
    return AdamWTensor{one.value.data(), first_[i].data(), second_[i].data(),
                       at.data,          one.copy.raw(),   one.value.count()};
  };
  auto* const clock = reinterpret_cast<device_kernels::AdamWClock*>(clock_.raw());
  device_kernels::count_step(stream, options_, clock, gradients.skip);
  for (const auto& group : group_updates<AdamWTensor>(parameters(), gradients, entry))
    device_kernels::update_adamw(stream, group.tensors, group.types, options_, clock, group.use);
}

void AdamW::enter_device() {
  constexpr std::size_t kBytes = sizeof(device_kernels::AdamWClock);
  clock_ = backend().allocate({kBytes}, DataType::kUInt8);
  const device::Memory pinned = clock_.device()->allocate_pinned(kBytes);
  const device_kernels::AdamWClock clock{.steps = steps_};
  std::memcpy(pinned.data(), &clock, kBytes);
  backend().device_stream()->copy(clock_.raw(), pinned.data(), kBytes);
  backend().device_stream()->synchronize();
}

void AdamW::leave_device() {
  const device::Memory pinned = clock_.device()->allocate_pinned(clock_.bytes());
  backend().device_stream()->copy(pinned.data(), clock_.raw(), clock_.bytes());
  backend().device_stream()->synchronize();
  device_kernels::AdamWClock clock;
  std::memcpy(&clock, pinned.data(), sizeof clock);
  steps_ = clock.steps;
  clock_ = Tensor();
}

// The rule is shared with the kernels for devices (ops/optim/update_rules.h), so that host and
// device update with the same operations in the same order.
void AdamW::update_on_host() {
  const AdamWRule rule = rule_of(options_, ++steps_);
  for (std::size_t p = 0; p < parameters().size(); ++p) {
    const auto value = parameters()[p]->value.values();
    const auto gradient = std::as_const(parameters()[p]->gradient).values();
    const auto first = first_[p].values();
    const auto second = second_[p].values();
    for (std::size_t i = 0; i < value.size(); ++i) {
      float state[] = {first[i], second[i]};
      rule(value[i], state, gradient[i]);
      first[i] = state[0];
      second[i] = state[1];
    }
  }
}

}  // namespace horo::ops
