#pragma once

#include <memory>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/layer.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {

/// The same network on a device, with its own memory and the model's names and values.
///
/// Its input is float32 [batch, ...] in the host's order, as is its gradient; the network converts
/// it to the type and layout of `compute`. Its output, and the gradient by that, are of compute's
/// type: logits [batch, classes]. Throws InvalidArgument, naming the layer, for a model with a
/// layer that is none of horo's own. Waits as upload_values() does.
std::unique_ptr<DeviceLayer> to_device(const Layer& model, DeviceCompute& compute);

/// Copies the values of all parameters and buffers of `from` to the device, and renews the copies
/// that layers compute with. Waits for the copies to the device. `to` is what to_device() has made
/// of `from`, or of a model like it: InvalidArgument if names or shapes differ.
void upload_values(Layer& from, DeviceLayer& to, DeviceCompute& compute);

/// The way back. Waits for the device.
void download_values(DeviceLayer& from, Layer& to, DeviceCompute& compute);

/// The same for one float32 tensor that lies as a parameter does (a momentum), in the order that
/// DeviceParameter::is_channels_last says. As TensorTransfer's, whose errors they have.
void upload(const Tensor& from, DeviceTensor& to, bool is_channels_last, TensorTransfer& transfer,
            DeviceCompute& compute);
void download(const DeviceTensor& from, bool is_channels_last, Tensor& to, TensorTransfer& transfer,
              DeviceCompute& compute);

}  // namespace horo::ops
