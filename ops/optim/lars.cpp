#include "ops/optim/lars.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "horo/base/error.h"
#include "ops/backend/device/update/layerwise_update.h"
#include "ops/optim/layerwise.h"
#include "ops/optim/update_groups.h"

namespace horo::ops {
namespace {

SgdOptions sgd_options(const LarsOptions& options) {
  HORO_CHECK(options.momentum > 0,
             fmt::format("Lars: momentum is {}; must be above 0", options.momentum));
  HORO_CHECK(
      std::isfinite(options.trust_coefficient) && options.trust_coefficient > 0,
      fmt::format("Lars: trust coefficient is {}; must be above 0", options.trust_coefficient));
  return {.learning_rate = options.learning_rate,
          .momentum = options.momentum,
          .weight_decay = options.weight_decay};
}

}  // namespace

Lars::Lars(std::vector<Parameter*> parameters, const LarsOptions& options)
    : Sgd(std::move(parameters), sgd_options(options)),
      trust_coefficient_(options.trust_coefficient) {}

std::string Lars::describe_options() const {
  return fmt::format("Lars with momentum {}, weight decay {} and trust coefficient {}",
                     options().momentum, options().weight_decay, trust_coefficient_);
}

LarsOptions Lars::current_options() const {
  return {options().learning_rate, options().momentum, options().weight_decay, trust_coefficient_};
}

void Lars::enter_device() { scratch_ = layerwise_scratch(backend(), parameters()); }

void Lars::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  const auto is_adapted = [&](std::size_t i) { return is_matrix(*parameters()[i]); };
  for (const auto& group : device_groups(gradients, is_adapted))
    device_kernels::update_lars(stream, group.tensors, group.types,
                                with_factors(current_options(), group.factors), scratch_.raw(),
                                group.use);
  Sgd::update_on_device(stream, gradients, [&](std::size_t i) { return !is_adapted(i); });
}

void Lars::update_on_host() {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (!is_matrix(*parameters()[i])) {
      Sgd::update_on_host(i);
      continue;
    }
    const LarsOptions own = with_factors(current_options(), factors()[i]);
    update_layer(LarsRule{own.learning_rate, own.momentum, own.weight_decay, trust_coefficient_},
                 *parameters()[i], {momentum_buffers()[i].values()});
  }
}

}  // namespace horo::ops
