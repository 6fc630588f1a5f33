#pragma once

#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"

// Private to ops/nn/device.

namespace horo::ops {

/// A parameter of any values, for a layer that computes with it in `type`; `host`: its shape there.
DeviceParameter make_device_parameter(DeviceCompute& compute, const Shape& host, DataType type);
/// One that is not trained, float32.
DeviceParameter make_device_buffer(DeviceCompute& compute, const Shape& host);

/// What a layer computes with.
inline const DeviceTensor& computed(const DeviceParameter& parameter) {
  return parameter.copy.count() > 0 ? parameter.copy : parameter.value;
}

/// The float32 values at `tensor`.
inline float* floats(const DeviceTensor& tensor) { return reinterpret_cast<float*>(tensor.data()); }

/// Says that the gradients of all of them are given to the stream.
inline void report(const std::vector<DeviceParameter*>& parameters,
                   const DeviceGradientReady& ready) {
  for (const DeviceParameter* parameter : parameters) {
    if (ready) ready(*parameter);
  }
}

}  // namespace horo::ops
