#include "ops/nn/device/tensor_functions.h"

#include <utility>

#include "ops/kernels/device/elementwise.h"
#include "ops/kernels/device/float_types.h"
#include "ops/kernels/device/matrix.h"

namespace horo::ops {
namespace {

using device_kernels::visit_float_type;

/// Allocates a tensor like `like` and calls launch(zero of its type, tensor), which writes it.
template <typename Launch>
Tensor made_like(DeviceCompute& compute, const Tensor& like, Launch launch) {
  Tensor result = compute.allocate(like.shape(), like.type());
  visit_float_type(like.type(), "a tensor on a device", [&](auto zero) { launch(zero, result); });
  return result;
}

/// Calls launch(zero of the type of `from`, zero of the type of `to`).
template <typename Launch>
void visit_both(const Tensor& from, const Tensor& to, Launch launch) {
  visit_float_type(from.type(), "a tensor on a device", [&](auto from_zero) {
    visit_float_type(to.type(), "a tensor on a device",
                     [&](auto to_zero) { launch(from_zero, to_zero); });
  });
}

/// A single row or column has the same order of elements in both layouts.
bool is_vector(const device_kernels::MatrixBatch& shape) {
  return shape.rows == 1 || shape.columns == 1;
}

/// Computes to [batch, columns, rows] = from [batch, rows, columns].
void transpose(DeviceCompute& compute, const Tensor& from, Tensor& to,
               const device_kernels::MatrixBatch& shape) {
  if (is_vector(shape)) return convert(compute, from, to);
  visit_both(from, to, [&](auto from_zero, auto to_zero) {
    device_kernels::transpose(compute.stream(), to.data<decltype(to_zero)>(),
                              from.data<decltype(from_zero)>(), shape);
  });
}

/// The matrices [channels, pixels] that a copy between host order and device order transposes.
/// `host` is the shape in host order. Without a transposition this is one row.
device_kernels::MatrixBatch channels_and_pixels(const Shape& host, ImageLayout layout) {
  if (host.rank() != 4 || layout == ImageLayout::kChannelsFirst) return {1, 1, host.count()};
  return {host[0], host[1], host[2] * host[3]};
}

bool is_same_order(const Shape& host, ImageLayout layout) {
  return is_vector(channels_and_pixels(host, layout));
}

}  // namespace

void convert(DeviceCompute& compute, const Tensor& from, Tensor& to) {
  visit_both(from, to, [&](auto from_zero, auto to_zero) {
    device_kernels::convert(compute.stream(), to.data<decltype(to_zero)>(),
                            from.data<decltype(from_zero)>(), from.count());
  });
}

// The element-wise functions do not depend on the layout: they combine values at the same position.
Tensor relu(DeviceCompute& compute, const Tensor& x) {
  return made_like(compute, x, [&](auto zero, Tensor& y) {
    using T = decltype(zero);
    device_kernels::relu_forward(compute.stream(), y.data<T>(), x.data<T>(), x.count());
  });
}

Tensor add_relu(DeviceCompute& compute, const Tensor& a, const Tensor& b) {
  return made_like(compute, a, [&](auto zero, Tensor& y) {
    using T = decltype(zero);
    device_kernels::add_relu(compute.stream(), y.data<T>(), a.data<T>(), b.data<T>(), a.count());
  });
}

Tensor relu_backward(DeviceCompute& compute, const Tensor& dy, const Tensor& y) {
  return made_like(compute, dy, [&](auto zero, Tensor& dx) {
    using T = decltype(zero);
    device_kernels::relu_backward(compute.stream(), dx.data<T>(), dy.data<T>(), y.data<T>(),
                                  dy.count());
  });
}

Tensor add_relu_backward(DeviceCompute& compute, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
  return made_like(compute, a, [&](auto zero, Tensor& dx) {
    using T = decltype(zero);
    device_kernels::add_relu_backward(compute.stream(), dx.data<T>(), a.data<T>(), b.data<T>(),
                                      y.data<T>(), a.count());
  });
}

Tensor gelu(DeviceCompute& compute, const Tensor& x) {
  return made_like(compute, x, [&](auto zero, Tensor& y) {
    using T = decltype(zero);
    device_kernels::gelu_forward(compute.stream(), y.data<T>(), x.data<T>(), x.count());
  });
}

Tensor gelu_backward(DeviceCompute& compute, const Tensor& dy, const Tensor& x) {
  return made_like(compute, dy, [&](auto zero, Tensor& dx) {
    using T = decltype(zero);
    device_kernels::gelu_backward(compute.stream(), dx.data<T>(), dy.data<T>(), x.data<T>(),
                                  dy.count());
  });
}

Tensor add(DeviceCompute& compute, const Tensor& a, const Tensor& b) {
  return made_like(compute, a, [&](auto zero, Tensor& y) {
    using T = decltype(zero);
    device_kernels::add(compute.stream(), y.data<T>(), a.data<T>(), b.data<T>(), a.count());
  });
}

// The first dimension is the batch; a row holds the features of one sample.
Tensor dropout(DeviceCompute& compute, const Tensor& x, const device_kernels::DropoutDraw& draw) {
  return made_like(compute, x, [&](auto zero, Tensor& y) {
    using T = decltype(zero);
    const std::size_t rows = x.shape()[0];
    device_kernels::dropout(compute.stream(), y.data<T>(), x.data<T>(), rows, x.count() / rows,
                            draw);
  });
}

Shape to_device_order(const Shape& host, ImageLayout layout) {
  if (host.rank() != 4 || layout == ImageLayout::kChannelsFirst) return host;
  return {host[0], host[2], host[3], host[1]};
}

Shape to_host_order(const Shape& device, ImageLayout layout) {
  if (device.rank() != 4 || layout == ImageLayout::kChannelsFirst) return device;
  return {device[0], device[3], device[1], device[2]};
}

void copy_to_device_order(DeviceCompute& compute, const Tensor& from, Tensor& to) {
  transpose(compute, from, to, channels_and_pixels(from.shape(), compute.layout()));
}

void copy_to_host_order(DeviceCompute& compute, const Tensor& from, Tensor& to) {
  const auto shape = channels_and_pixels(to.shape(), compute.layout());
  transpose(compute, from, to, {shape.batch, shape.columns, shape.rows});
}

// If type and order of elements are the same, only the shape changes and the memory is reused.
// Otherwise one kernel converts both.
Tensor in_device_order(DeviceCompute& compute, Tensor x, DataType type) {
  const Shape host = x.shape(), device = to_device_order(host, compute.layout());
  if (x.type() == type && is_same_order(host, compute.layout()))
    return std::move(x).reshaped(device);
  Tensor y = compute.allocate(device, type);
  copy_to_device_order(compute, x, y);
  return y;
}

Tensor in_host_order(DeviceCompute& compute, Tensor x, DataType type) {
  const Shape host = to_host_order(x.shape(), compute.layout());
  if (x.type() == type && is_same_order(host, compute.layout())) return std::move(x).reshaped(host);
  Tensor y = compute.allocate(host, type);
  copy_to_host_order(compute, x, y);
  return y;
}

}  // namespace horo::ops
