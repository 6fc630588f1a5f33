#include "ops/train/device_sgd.h"

#include <algorithm>

#include "ops/nn/device/to_device.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {
namespace {

device_kernels::UpdateTypes types_of(const DeviceParameter& parameter,
                                     const ReducedGradient& gradient) {
  // Without a copy there is nothing to write in another type.
  const bool has_copy = parameter.copy.count() > 0;
  return {.gradient = gradient.type, .copy = has_copy ? parameter.copy.type() : DataType::kFloat32};
}

}  // namespace

DeviceSgd::DeviceSgd(device::Device& device, device::Stream& stream,
                     const std::vector<DeviceParameter*>& parameters,
                     std::span<const ReducedGradient> gradients, const SgdOptions& options)
    : options_(options) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const DeviceParameter* parameter = parameters[i];
    const Shape& shape = parameter->value.shape();
    float* momentum = nullptr;
    if (options.momentum > 0) {
      const DeviceTensor& values =
          momenta_
              .emplace_back(DeviceTensor(shape, DataType::kFloat32,
                                         device.allocate(shape.count() * sizeof(float))),
                            parameter->is_channels_last)
              .values;
      stream.fill(values.data(), 0, values.bytes());
      momentum = reinterpret_cast<float*>(values.data());
    }
    const device_kernels::UpdateTypes types = types_of(*parameter, gradients[i]);
    const auto scale = static_cast<float>(gradients[i].scale);
    auto group = std::ranges::find_if(groups_, [&](const Group& one) {
      return one.types.gradient == types.gradient && one.types.copy == types.copy &&
             one.scale == scale;
    });
    if (group == groups_.end()) group = groups_.insert(group, {types, scale, {}});
    group->tensors.push_back({.value = reinterpret_cast<float*>(parameter->value.data()),
                              .momentum = momentum,
                              .gradient = gradients[i].data,
                              .copy = parameter->copy.data(),
                              .count = shape.count()});
  }
}

void DeviceSgd::upload_momentum(std::span<const Tensor> from, DeviceCompute& compute) {
  TensorTransfer transfer(compute.device());
  for (std::size_t i = 0; i < momenta_.size(); ++i)
    upload(from[i], momenta_[i].values, momenta_[i].is_channels_last, transfer, compute);
}

void DeviceSgd::download_momentum(std::span<Tensor> to, DeviceCompute& compute) {
  TensorTransfer transfer(compute.device());
  for (std::size_t i = 0; i < momenta_.size(); ++i)
    download(momenta_[i].values, momenta_[i].is_channels_last, to[i], transfer, compute);
}

void DeviceSgd::step(device::Stream& stream, const device_kernels::GradientUse& use) {
  device_kernels::GradientUse of_group = use;
  for (const Group& group : groups_) {
    of_group.scale = group.scale;
    device_kernels::update_sgd(stream, group.tensors, group.types, options_, of_group);
  }
}

}  // namespace horo::ops
