#pragma once

#include <memory>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/layer.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {

/// Builds the same network on a device. It has separate memory, and the names and values of the
/// model.
///
/// Its input and the gradient by the input are float32 [batch, ...] in host order; the network
/// converts them to the type and layout of `compute`. Its output, logits [batch, classes], and the
/// gradient by the output have the type of `compute`. Blocks as upload_values() does. Throws
/// InvalidArgument, with the name of the layer, for a layer that is not part of horo.
std::unique_ptr<DeviceLayer> to_device(const Layer& model, DeviceCompute& compute);

/// Copies the values of all parameters and buffers of `from` to the device, and updates the copies
/// that layers compute with. Blocks until the copies to the device are complete. `to` must be a
/// result of to_device() for a model with the names and shapes of `from`; throws InvalidArgument if
/// they differ.
void upload_values(Layer& from, DeviceLayer& to, DeviceCompute& compute);

/// Copies in the other direction. Blocks until the device is done.
void download_values(DeviceLayer& from, Layer& to, DeviceCompute& compute);

/// The same for one float32 tensor with the layout of a parameter, such as a momentum; see
/// DeviceParameter::is_channels_last. Errors are those of TensorTransfer.
void upload(const Tensor& from, Tensor& to, bool is_channels_last, TensorTransfer& transfer,
            DeviceCompute& compute);
void download(const Tensor& from, bool is_channels_last, Tensor& to, TensorTransfer& transfer,
              DeviceCompute& compute);

}  // namespace horo::ops
