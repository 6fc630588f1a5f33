#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ops/backend/device/update.h"
#include "ops/optim/optimizer.h"

// Private to ops/optim: the parameters of a step on a device.

namespace horo::ops {

/// Parameters that one launch updates. `Entry` is device_kernels::SgdTensor or AdamWTensor.
template <typename Entry>
struct UpdateGroup {
  device_kernels::UpdateTypes types;
  device_kernels::GradientUse use;
  std::vector<Entry> tensors;
};

inline GradientLocation location_of(std::span<Parameter* const> parameters, std::size_t index,
                                    const StepGradients& gradients) {
  if (!gradients.locations.empty()) return gradients.locations[index];
  const Tensor& own = parameters[index]->gradient;
  return {own.raw(), own.type(), 1};
}

/// Groups the parameters by the types and the scale of their gradients. make_entry(index, location)
/// describes a parameter.
template <typename Entry, typename MakeEntry>
std::vector<UpdateGroup<Entry>> group_updates(std::span<Parameter* const> parameters,
                                              const StepGradients& gradients,
                                              MakeEntry make_entry) {
  std::vector<UpdateGroup<Entry>> groups;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const GradientLocation at = location_of(parameters, i, gradients);
    const DataType copy = parameters[i]->computed().type();  // float32: there is none
    auto group = std::ranges::find_if(groups, [&](const UpdateGroup<Entry>& one) {
      return one.types.gradient == at.type && one.types.copy == copy && one.use.scale == at.scale;
    });
    if (group == groups.end())
      group = groups.insert(group, {{at.type, copy},
                                    {.scale = at.scale,
                                     .factor = gradients.factor,
                                     .skip = gradients.skip,
                                     .learning_rate = gradients.learning_rate},
                                    {}});
    group->tensors.push_back(make_entry(i, at));
  }
  return groups;
}

}  // namespace horo::ops
