#include "ops/optim/adamw.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "horo/base/error.h"
#include "horo/device/device.h"
#include "ops/optim/update_groups.h"
#include "ops/optim/update_rules.h"

namespace horo::ops {
namespace {

void check_beta(const std::string& optimizer, const char* name, float beta) {
  HORO_CHECK(beta >= 0 && beta < 1,
             fmt::format("{}: {} is {}; must be in [0, 1)", optimizer, name, beta));
}

void check(const std::string& optimizer, const AdamWOptions& options) {
  check_learning_rate(optimizer, options.learning_rate);
  check_beta(optimizer, "beta1", options.beta1);
  check_beta(optimizer, "beta2", options.beta2);
  HORO_CHECK(options.epsilon > 0,
             fmt::format("{}: epsilon is {}; must be above 0", optimizer, options.epsilon));
  HORO_CHECK(options.weight_decay >= 0, fmt::format("{}: weight decay is {}; must be at least 0",
                                                    optimizer, options.weight_decay));
}

std::string name_of(const AdamWOptions& options) {
  return options.coupled_decay ? "Adam" : "AdamW";
}

}  // namespace

AdamWRule rule_of(const AdamWOptions& options, std::int64_t step) {
  check(name_of(options), options);
  return {options.learning_rate,
          options.beta1,
          options.beta2,
          options.epsilon,
          options.coupled_decay ? 0 : options.weight_decay,
          options.coupled_decay ? options.weight_decay : 0,
          bias_correction(options.beta1, step),
          bias_correction(options.beta2, step)};
}

AdamW::AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options)
    : AdamW(std::move(parameters), options, name_of(options)) {}

AdamW::AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options, std::string name)
    : Optimizer(std::move(parameters)), name_(std::move(name)), options_(options) {
  check(name_, options);
  add_state("first_moment");
  add_state("second_moment");
}

void AdamW::set_learning_rate(float learning_rate) {
  check_learning_rate(name_, learning_rate);
  options_.learning_rate = learning_rate;
}

void AdamW::set_steps(std::int64_t steps) {
  HORO_CHECK(steps >= 0,
             fmt::format("{}: number of steps is {}; must be at least 0", name_, steps));
  steps_ = steps;
}

std::string AdamW::describe_options() const {
  return fmt::format("{} with beta1 {}, beta2 {}, epsilon {} and weight decay {}", name_,
                     options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay);
}

device_kernels::AdamWClock* AdamW::clock() {
  return reinterpret_cast<device_kernels::AdamWClock*>(clock_.raw());
}

void AdamW::count_step(device::Stream& stream, const StepGradients& gradients) {
  device_kernels::count_step(stream, options_, clock(), gradients.skip);
}

std::vector<UpdateGroup<device_kernels::AdamWTensor>> AdamW::device_groups(
    const StepGradients& gradients, const Selection& is_selected) {
  using device_kernels::AdamWTensor;
  return group_updates<AdamWTensor>(
      parameters(), factors(), gradients, is_selected,
      [&](std::size_t i, const GradientLocation& at) {
        Parameter& one = *parameters()[i];
        return AdamWTensor{
            one.value.data(), first_moments()[i].data(), second_moments()[i].data(), at.data,
            one.copy.raw(),   one.value.count()};
      });
}

void AdamW::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  count_step(stream, gradients);
  update_on_device(stream, gradients, [](std::size_t) { return true; });
}

void AdamW::update_on_device(device::Stream& stream, const StepGradients& gradients,
                             const Selection& is_selected) {
  for (const auto& group : device_groups(gradients, is_selected))
    device_kernels::update_adamw(stream, group.tensors, group.types,
                                 with_factors(options_, group.factors), clock(), group.use);
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

void AdamW::update_counters() {
  if (backend().device_stream() == nullptr) return;
  const device::Memory pinned = clock_.device()->allocate_pinned(clock_.bytes());
  backend().device_stream()->copy(pinned.data(), clock_.raw(), clock_.bytes());
  backend().device_stream()->synchronize();
  device_kernels::AdamWClock clock;
  std::memcpy(&clock, pinned.data(), sizeof clock);
  steps_ = clock.steps;
}

void AdamW::leave_device() {
  update_counters();
  clock_ = Tensor();
}

AdamWRule AdamW::count_step() { return rule_of(options_, ++steps_); }

void AdamW::update_on_host() {
  const AdamWRule rule = count_step();
  for (std::size_t i = 0; i < parameters().size(); ++i) update_on_host(i, rule);
}

// The rule is shared with the kernels for devices (ops/optim/update_rules.h), so that host and
// device update with the same operations in the same order.
void AdamW::update_on_host(std::size_t index, const AdamWRule& rule) {
  const AdamWRule own = with_factors(rule, factors()[index]);
  const auto value = parameters()[index]->value.values();
  const auto gradient = std::as_const(parameters()[index]->gradient).values();
  const auto first = first_moments()[index].values();
  const auto second = second_moments()[index].values();
  for (std::size_t i = 0; i < value.size(); ++i) {
    float state[] = {first[i], second[i]};
    own(value[i], state, gradient[i]);
    first[i] = state[0];
    second[i] = state[1];
  }
}

}  // namespace horo::ops
