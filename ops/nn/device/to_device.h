#pragma once

#include <memory>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// The same network on a device, with its own memory and the model's names and values.
///
/// Its input is float32 [batch, ...] in the host's order, as is its gradient; the network converts
/// it to the type and layout of `compute`. Its output, and the gradient by that, are of compute's
/// type: logits [batch, classes]. Throws InvalidArgument, naming the layer, for a model with a
/// layer that is none of horo's own. Does not wait for the device.
std::unique_ptr<DeviceLayer> to_device(const Layer& model, DeviceCompute& compute);

/// Copies the values of all parameters and buffers of `from` to the device, and renews the copies
/// that layers compute with. Does not wait for the device. `to` is what to_device() has made of
/// `from`, or of a model like it: InvalidArgument if names or shapes differ.
void upload_values(Layer& from, DeviceLayer& to, DeviceCompute& compute);

/// The way back. Waits for the device.
void download_values(DeviceLayer& from, Layer& to, DeviceCompute& compute);

}  // namespace horo::ops
