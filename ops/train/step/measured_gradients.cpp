#include "ops/train/step/measured_gradients.h"

#include <algorithm>

namespace horo::ops {

using device_kernels::GradientGroup;
using device_kernels::GradientVerdict;

// Gradients with equal type and scale form a group, and each group is measured at once. The order
// of the groups and tensors fixes the order of the sum and with it the bits of the norm.
MeasuredGradients::MeasuredGradients(device::Device& device, device::Stream& stream,
                                     const std::vector<Parameter*>& parameters,
                                     std::span<const ReducedGradient> gradients)
    : verdict_(device.allocate(sizeof(GradientVerdict))) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const DataType type = gradients[i].type;
    const auto scale = static_cast<float>(gradients[i].scale);
    auto group = std::ranges::find_if(
        groups_, [&](const Group& one) { return one.type == type && one.scale == scale; });
    if (group == groups_.end()) group = groups_.insert(group, {type, scale, {}});
    group->tensors.push_back({gradients[i].data, parameters[i]->gradient.count()});
  }
  std::size_t sums = 1;
  for (const Group& group : groups_) sums += device_kernels::count_partial_sums(group.tensors);
  partial_sums_ = device.allocate(sums * sizeof(double));
  stream.fill(verdict_.data(), 0, sizeof(GradientVerdict));
}

void MeasuredGradients::measure(device::Stream& stream,
                                const device_kernels::GradientMeasure& how) {
  std::vector<GradientGroup> groups;
  for (const Group& group : groups_) groups.push_back({group.type, group.tensors, group.scale});
  device_kernels::measure_gradients(
      stream, groups,
      {reinterpret_cast<double*>(partial_sums_.data()), partial_sums_.size() / sizeof(double)},
      reinterpret_cast<GradientVerdict*>(verdict_.data()), how);
}

const GradientVerdict* MeasuredGradients::verdict() const {
  return reinterpret_cast<const GradientVerdict*>(verdict_.data());
}

}  // namespace horo::ops
