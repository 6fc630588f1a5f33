#pragma once

#include "ops/kernels/device/dropout.h"
#include "ops/nn/device/device_compute.h"
#include "ops/tensor/device_tensor.h"

// Private to ops/nn/device: runs the kernels of ops/kernels/device on whole tensors and returns new
// tensors.

namespace horo::ops {

DeviceTensor relu(DeviceCompute& compute, const DeviceTensor& x);
/// relu(a + b).
DeviceTensor add_relu(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b);
/// Returns the gradient by the input of relu() or add_relu(), whose result was `y`.
DeviceTensor relu_backward(DeviceCompute& compute, const DeviceTensor& dy, const DeviceTensor& y);
/// Returns relu_backward() of the sum of two gradients by `y`, without storing the sum.
DeviceTensor add_relu_backward(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b,
                               const DeviceTensor& y);
DeviceTensor gelu(DeviceCompute& compute, const DeviceTensor& x);
/// The gradient of gelu() by its input `x`.
DeviceTensor gelu_backward(DeviceCompute& compute, const DeviceTensor& dy, const DeviceTensor& x);
DeviceTensor add(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b);
/// `x` has the shape [rows, ...] and is in host order.
DeviceTensor dropout(DeviceCompute& compute, const DeviceTensor& x,
                     const device_kernels::DropoutDraw& draw);

/// Converts the values of `from` to the type of `to`. The shapes are equal.
void convert(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);

/// Converts a shape [batch, channels, height, width] to the order of `layout`, and back. Shapes
/// with another number of dimensions are the same in both orders. Filters are converted likewise.
Shape to_device_order(const Shape& host, ImageLayout layout);
Shape to_host_order(const Shape& device, ImageLayout layout);

/// Copies from host order to the order of compute's layout, and back, and converts the type. One of
/// the two shapes determines the other.
void copy_to_device_order(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);
void copy_to_host_order(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);

/// Copies like the functions above, to a new tensor. Returns the input itself if nothing has to
/// change.
DeviceTensor in_device_order(DeviceCompute& compute, DeviceTensor x, DataType type);
DeviceTensor in_host_order(DeviceCompute& compute, DeviceTensor x, DataType type);

}  // namespace horo::ops
