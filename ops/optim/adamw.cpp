#include "ops/optim/adamw.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "horo/base/error.h"
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
    : parameters_(std::move(parameters)), options_(options) {
  check(options);
  first_.reserve(parameters_.size());
  second_.reserve(parameters_.size());
  for (const Parameter* parameter : parameters_) {
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

// The rule is shared with the kernels for devices (ops/optim/update_rules.h), so that host and
// device update with the same operations in the same order.
void AdamW::step() {
  const AdamWRule rule = rule_of(options_, ++steps_);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto value = parameters_[p]->value.values();
    const auto gradient = std::as_const(parameters_[p]->gradient).values();
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
