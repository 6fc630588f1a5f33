#include "ops/train/device_sgd.h"

#include <algorithm>

#include "ops/nn/device/to_device.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {
namespace {

device_kernels::UpdateTypes types_of(const DeviceParameter& parameter) {
  // Without a copy there is nothing to write in another type.
  const bool has_copy = parameter.copy.count() > 0;
  return {.gradient = parameter.gradient.type(),
          .copy = has_copy ? parameter.copy.type() : DataType::kFloat32};
}

}  // namespace

DeviceSgd::DeviceSgd(device::Device& device, device::Stream& stream,
                     const std::vector<DeviceParameter*>& parameters, const SgdOptions& options)
    : options_(options) {
  for (const DeviceParameter* parameter : parameters) {
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
    const device_kernels::UpdateTypes types = types_of(*parameter);
    auto group = std::ranges::find_if(groups_, [&](const Group& one) {
      return one.types.gradient == types.gradient && one.types.copy == types.copy;
    });
    if (group == groups_.end()) group = groups_.insert(group, {types, {}});
    group->tensors.push_back({.value = reinterpret_cast<float*>(parameter->value.data()),
                              .momentum = momentum,
                              .gradient = parameter->gradient.data(),
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
  for (const Group& group : groups_)
    device_kernels::update_sgd(stream, group.tensors, group.types, options_, use);
}

}  // namespace horo::ops
