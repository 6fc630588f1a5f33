#pragma once

#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"

// Private to ops/nn/device.

namespace horo::ops {

/// Allocates a parameter without setting its values. `host` is its shape on the host. A layer
/// computes with it in `type`.
DeviceParameter make_device_parameter(DeviceCompute& compute, const Shape& host, DataType type);
/// Allocates a float32 tensor that is not trained.
DeviceParameter make_device_buffer(DeviceCompute& compute, const Shape& host);

/// The tensor that a layer computes with: the copy if there is one, else the value.
inline const Tensor& computed(const DeviceParameter& parameter) {
  return parameter.copy.count() > 0 ? parameter.copy : parameter.value;
}

/// Reports that the work for the gradients of all `parameters` has been submitted to the stream.
inline void report(const std::vector<DeviceParameter*>& parameters,
                   const DeviceGradientReady& ready) {
  for (const DeviceParameter* parameter : parameters) {
    if (ready) ready(*parameter);
  }
}

}  // namespace horo::ops
