#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/backend/device/update/update.h"
#include "ops/optim/optimizer.h"
#include "ops/optim/update_rules.h"

// Private to ops/optim: the parameters of a step on a device.

namespace horo::ops {

/// The options of an optimizer, or an AdamWRule, for parameters with factors of their rates.
template <typename Rates>
Rates with_factors(Rates rates, const RateFactors& factors) {
  rates.learning_rate *= factors.learning_rate;
  rates.weight_decay *= factors.weight_decay;
  if constexpr (std::is_same_v<Rates, AdamWRule>) rates.coupled_decay *= factors.weight_decay;
  return rates;
}

/// Parameters that one launch updates. `Entry` is device_kernels::SgdTensor or AdamWTensor.
template <typename Entry>
struct UpdateGroup {
  device_kernels::UpdateTypes types;
  RateFactors factors;
  device_kernels::GradientUse use;
  std::vector<Entry> tensors;
};

inline GradientLocation location_of(std::span<Parameter* const> parameters, std::size_t index,
                                    const StepGradients& gradients) {
  if (!gradients.locations.empty()) return gradients.locations[index];
  const Tensor& own = parameters[index]->gradient;
  return {own.raw(), own.type(), 1};
}

inline device_kernels::GradientUse use_of(const StepGradients& gradients,
                                          const GradientLocation& at, const RateFactors& factors) {
  return {.scale = at.scale,
          .factor = gradients.factor,
          .skip = gradients.skip,
          .learning_rate = gradients.learning_rate,
          .learning_rate_factor = factors.learning_rate};
}

/// Groups the selected parameters by the types and the scale of their gradients and by their
/// factors. make_entry(index, location) describes a parameter.
template <typename Entry, typename IsSelected, typename MakeEntry>
std::vector<UpdateGroup<Entry>> group_updates(std::span<Parameter* const> parameters,
                                              std::span<const RateFactors> factors,
                                              const StepGradients& gradients,
                                              const IsSelected& is_selected,
                                              const MakeEntry& make_entry) {
  std::vector<UpdateGroup<Entry>> groups;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!is_selected(i)) continue;
    const GradientLocation at = location_of(parameters, i, gradients);
    const DataType copy = parameters[i]->computed().type();  // float32: there is none
    auto group = std::ranges::find_if(groups, [&](const UpdateGroup<Entry>& one) {
      return one.types.gradient == at.type && one.types.copy == copy && one.use.scale == at.scale &&
             one.factors == factors[i];
    });
    if (group == groups.end())
      group = groups.insert(group,
                            {{at.type, copy}, factors[i], use_of(gradients, at, factors[i]), {}});
    group->tensors.push_back(make_entry(i, at));
  }
  return groups;
}

}  // namespace horo::ops
