#include "ops/nn/device/device_parameters.h"

#include "ops/nn/device/tensor_functions.h"

namespace horo::ops {

// Only tensors with four dimensions, the filters, have another order on the device.
DeviceParameter make_device_buffer(DeviceCompute& compute, const Shape& host) {
  DeviceParameter buffer;
  buffer.value = compute.allocate(to_device_order(host, compute.layout()), DataType::kFloat32);
  buffer.is_channels_last = host.rank() == 4 && compute.layout() == ImageLayout::kChannelsLast;
  return buffer;
}

// The optimizer updates the float32 value. In bfloat16, which has 8 significant bits, small updates
// would be rounded away. Layers compute with the copy.
DeviceParameter make_device_parameter(DeviceCompute& compute, const Shape& host, DataType type) {
  DeviceParameter parameter = make_device_buffer(compute, host);
  const Shape& shape = parameter.value.shape();
  if (type != DataType::kFloat32) parameter.copy = compute.allocate(shape, type);
  parameter.gradient = compute.allocate(shape, type);
  return parameter;
}

}  // namespace horo::ops
