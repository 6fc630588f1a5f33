#include "ops/optim/sgd.h"

#include <fmt/format.h>

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

}  // namespace

Sgd::Sgd(std::vector<Parameter*> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  check_learning_rate("Sgd", options.learning_rate);
  HORO_CHECK(options.momentum >= 0 && options.momentum < 1,
             fmt::format("Sgd: momentum is {}; must be in [0, 1)", options.momentum));
  HORO_CHECK(options.weight_decay >= 0,
             fmt::format("Sgd: weight decay is {}; must be at least 0", options.weight_decay));
  HORO_CHECK(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0");
  // Without momentum there is no state, so a checkpoint contains none.
  if (options.momentum > 0) add_state("momentum");
}

void Sgd::set_learning_rate(float learning_rate) {
  check_learning_rate("Sgd", learning_rate);
  options_.learning_rate = learning_rate;
}

std::string Sgd::describe_options() const {
  return fmt::format("Sgd with momentum {}{} and weight decay {}", options_.momentum,
                     options_.nesterov ? " (nesterov)" : "", options_.weight_decay);
}

std::vector<UpdateGroup<device_kernels::SgdTensor>> Sgd::device_groups(
    const StepGradients& gradients, const Selection& is_selected) {
  using device_kernels::SgdTensor;
  const auto momenta = momentum_buffers();
  return group_updates<SgdTensor>(parameters(), factors(), gradients, is_selected,
                                  [&](std::size_t i, const GradientLocation& at) {
                                    Parameter& one = *parameters()[i];
                                    return SgdTensor{one.value.data(),
                                                     momenta.empty() ? nullptr : momenta[i].data(),
                                                     at.data, one.copy.raw(), one.value.count()};
                                  });
}

void Sgd::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  update_on_device(stream, gradients, [](std::size_t) { return true; });
}

void Sgd::update_on_device(device::Stream& stream, const StepGradients& gradients,
                           const Selection& is_selected) {
  for (const auto& group : device_groups(gradients, is_selected))
    device_kernels::update_sgd(stream, group.tensors, group.types,
                               with_factors(options_, group.factors), group.use);
}

// One pass over memory per parameter. The loop over parameters is outside, so the choice of the
// variant costs nothing per value.
void Sgd::update_on_host() {
  for (std::size_t i = 0; i < parameters().size(); ++i) update_on_host(i);
}

void Sgd::update_on_host(std::size_t index) {
  const SgdOptions options = with_factors(options_, factors()[index]);
  const auto value = parameters()[index]->value.values();
  const auto gradient = std::as_const(parameters()[index]->gradient).values();
  const auto momenta = momentum_buffers();
  if (momenta.empty()) {
    step_plain(value, gradient, options);
  } else if (options.nesterov) {
    step_with_momentum<true>(value, gradient, momenta[index].values(), options);
  } else {
    step_with_momentum<false>(value, gradient, momenta[index].values(), options);
  }
}

}  // namespace horo::ops
