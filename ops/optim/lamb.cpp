#include "ops/optim/lamb.h"

#include <utility>

#include "horo/base/error.h"
#include "ops/backend/device/update/layerwise_update.h"
#include "ops/optim/layerwise.h"
#include "ops/optim/update_groups.h"

namespace horo::ops {

Lamb::Lamb(std::vector<Parameter*> parameters, const AdamWOptions& options)
    : AdamW(std::move(parameters), options, "Lamb") {
  HORO_CHECK(!options.coupled_decay, "Lamb: the weight decay is decoupled; turn coupled_decay off");
}

void Lamb::enter_device() {
  AdamW::enter_device();
  scratch_ = layerwise_scratch(backend(), parameters());
}

void Lamb::leave_device() {
  AdamW::leave_device();
  scratch_ = Tensor();
}

void Lamb::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  const auto is_adapted = [&](std::size_t i) { return is_matrix(*parameters()[i]); };
  count_step(stream, gradients);
  for (const auto& group : device_groups(gradients, is_adapted))
    device_kernels::update_lamb(stream, group.tensors, group.types,
                                with_factors(options(), group.factors), clock(), scratch_.raw(),
                                group.use);
  AdamW::update_on_device(stream, gradients, [&](std::size_t i) { return !is_adapted(i); });
}

void Lamb::update_on_host() {
  const AdamWRule rule = count_step();
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (is_matrix(*parameters()[i]))
      update_layer(LambRule{with_factors(rule, factors()[i])}, *parameters()[i],
                   {first_moments()[i].values(), second_moments()[i].values()});
    else
      AdamW::update_on_host(i, rule);
  }
}

}  // namespace horo::ops
