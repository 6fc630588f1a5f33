#pragma once

#include "ops/kernels/device/dropout.h"
#include "ops/nn/device/device_compute.h"
#include "ops/tensor/device_tensor.h"

// Private to ops/nn/device: the kernels of ops/kernels/device on whole tensors, with results that
// are tensors of their own.

namespace horo::ops {

DeviceTensor relu(DeviceCompute& compute, const DeviceTensor& x);
/// relu(a + b).
DeviceTensor add_relu(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b);
/// The gradient by the input of either; `y`: what it gave.
DeviceTensor relu_backward(DeviceCompute& compute, const DeviceTensor& dy, const DeviceTensor& y);
/// The same from two gradients, whose sum is that by `y`.
DeviceTensor add_relu_backward(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b,
                               const DeviceTensor& y);
DeviceTensor gelu(DeviceCompute& compute, const DeviceTensor& x);
/// The gradient by its input `x`.
DeviceTensor gelu_backward(DeviceCompute& compute, const DeviceTensor& dy, const DeviceTensor& x);
DeviceTensor add(DeviceCompute& compute, const DeviceTensor& a, const DeviceTensor& b);
/// `x`: [rows, ...], in the host's order.
DeviceTensor dropout(DeviceCompute& compute, const DeviceTensor& x,
                     const device_kernels::DropoutDraw& draw);

/// Writes the values of `from` to `to`, of any type and the same shape.
void convert(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);

/// A shape [batch, channels, height, width] as tensors of that layout have it, and the way back;
/// shapes of another number of dimensions are the same in both orders. (Filters likewise.)
Shape to_device_order(const Shape& host, ImageLayout layout);
Shape to_host_order(const Shape& device, ImageLayout layout);

/// Writes the values of `from`, in the host's order, to `to`, of any type and in the order of
/// compute's layout; and the way back. One of the two shapes follows from the other.
void copy_to_device_order(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);
void copy_to_host_order(DeviceCompute& compute, const DeviceTensor& from, DeviceTensor& to);

/// The same as new tensors, or, where there is nothing to do, as the old ones.
DeviceTensor in_device_order(DeviceCompute& compute, DeviceTensor x, DataType type);
DeviceTensor in_host_order(DeviceCompute& compute, DeviceTensor x, DataType type);

}  // namespace horo::ops
