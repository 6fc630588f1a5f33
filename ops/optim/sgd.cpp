#include "ops/optim/sgd.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "horo/base/error.h"
#include "ops/optim/update_groups.h"

namespace horo::ops {
namespace {

// SgdRule repeats this arithmetic for devices. Change both together.
void step_plain(std::span<float> value, std::span<const float> gradient,
                const SgdOptions& options) {
  const float rate = options.learning_rate;
  const float decay = options.weight_decay;
  for (std::size_t i = 0; i < value.size(); ++i) {
    value[i] -= rate * (gradient[i] + decay * value[i]);
  }
}

// A template, so that the inner loop has no branch and is vectorised.
template <bool kNesterov>
void step_with_momentum(std::span<float> value, std::span<const float> gradient,
                        std::span<float> momentum, const SgdOptions& options) {
  const float rate = options.learning_rate;
  const float decay = options.weight_decay;
  const float keep = options.momentum;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const float decayed = gradient[i] + decay * value[i];
    momentum[i] = keep * momentum[i] + decayed;
    value[i] -= rate * (kNesterov ? decayed + keep * momentum[i] : momentum[i]);
  }
}

void check_learning_rate(float learning_rate) {
  HORO_CHECK(std::isfinite(learning_rate) && learning_rate >= 0,
             fmt::format("Sgd: learning rate is {}; must be finite and at least 0", learning_rate));
}

}  // namespace

Sgd::Sgd(std::vector<Parameter*> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  check_learning_rate(options.learning_rate);
  HORO_CHECK(options.momentum >= 0 && options.momentum < 1,
             fmt::format("Sgd: momentum is {}; must be in [0, 1)", options.momentum));
  HORO_CHECK(options.weight_decay >= 0,
             fmt::format("Sgd: weight decay is {}; must be at least 0", options.weight_decay));
  HORO_CHECK(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0");
  // Without momentum there is no state, so a checkpoint contains none.
  if (options.momentum == 0) return;
  momenta_.reserve(this->parameters().size());
  for (const Parameter* parameter : this->parameters()) {
    momenta_.push_back(Tensor::zeros(parameter->value.shape()));
  }
}

void Sgd::set_learning_rate(float learning_rate) {
  check_learning_rate(learning_rate);
  options_.learning_rate = learning_rate;
}

std::vector<Optimizer::State> Sgd::states() {
  if (momenta_.empty()) return {};
  return {{"momentum", momenta_}};
}

std::string Sgd::describe() const {
  return fmt::format("Sgd with momentum {}{} and weight decay {}", options_.momentum,
                     options_.nesterov ? " (nesterov)" : "", options_.weight_decay);
}

void Sgd::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  using device_kernels::SgdTensor;
  const auto entry = [&](std::size_t i, const GradientLocation& at) {
    Parameter& one = *parameters()[i];
    return SgdTensor{one.value.data(), momenta_.empty() ? nullptr : momenta_[i].data(), at.data,
                     one.copy.raw(), one.value.count()};
  };
  for (const auto& group : group_updates<SgdTensor>(parameters(), gradients, entry))
    device_kernels::update_sgd(stream, group.tensors, group.types, options_, group.use);
}

// One pass over memory per parameter. The loop over parameters is outside, so the choice of the
// variant costs nothing per value.
void Sgd::update_on_host() {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const auto value = parameters()[i]->value.values();
    const auto gradient = std::as_const(parameters()[i]->gradient).values();
    if (momenta_.empty()) {
      step_plain(value, gradient, options_);
    } else if (options_.nesterov) {
      step_with_momentum<true>(value, gradient, momenta_[i].values(), options_);
    } else {
      step_with_momentum<false>(value, gradient, momenta_[i].values(), options_);
    }
  }
}

}  // namespace horo::ops
