#pragma once

#include "ops/kernels/device/dropout.h"
#include "ops/nn/device/device_compute.h"
#include "ops/tensor/tensor.h"

// Private to ops/nn/device: runs the kernels of ops/kernels/device on whole tensors and returns new
// tensors.

namespace horo::ops {

Tensor relu(DeviceCompute& compute, const Tensor& x);
/// relu(a + b).
Tensor add_relu(DeviceCompute& compute, const Tensor& a, const Tensor& b);
/// Returns the gradient by the input of relu() or add_relu(), whose result was `y`.
Tensor relu_backward(DeviceCompute& compute, const Tensor& dy, const Tensor& y);
/// Returns relu_backward() of the sum of two gradients by `y`, without storing the sum.
Tensor add_relu_backward(DeviceCompute& compute, const Tensor& a, const Tensor& b, const Tensor& y);
Tensor gelu(DeviceCompute& compute, const Tensor& x);
/// The gradient of gelu() by its input `x`.
Tensor gelu_backward(DeviceCompute& compute, const Tensor& dy, const Tensor& x);
Tensor add(DeviceCompute& compute, const Tensor& a, const Tensor& b);
/// `x` has the shape [rows, ...] and is in host order.
Tensor dropout(DeviceCompute& compute, const Tensor& x, const device_kernels::DropoutDraw& draw);

/// Converts the values of `from` to the type of `to`. The shapes are equal.
void convert(DeviceCompute& compute, const Tensor& from, Tensor& to);

/// Converts a shape [batch, channels, height, width] to the order of `layout`, and back. Shapes
/// with another number of dimensions are the same in both orders. Filters are converted likewise.
Shape to_device_order(const Shape& host, ImageLayout layout);
Shape to_host_order(const Shape& device, ImageLayout layout);

/// Copies from host order to the order of compute's layout, and back, and converts the type. One of
/// the two shapes determines the other.
void copy_to_device_order(DeviceCompute& compute, const Tensor& from, Tensor& to);
void copy_to_host_order(DeviceCompute& compute, const Tensor& from, Tensor& to);

/// Copies like the functions above, to a new tensor. Returns the input itself if nothing has to
/// change.
Tensor in_device_order(DeviceCompute& compute, Tensor x, DataType type);
Tensor in_host_order(DeviceCompute& compute, Tensor x, DataType type);

}  // namespace horo::ops
