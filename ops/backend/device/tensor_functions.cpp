// The element-wise functions and conversions of DeviceBackend.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "ops/backend/device/device_backend.h"
#include "ops/backend/device/elementwise.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/losses.h"
#include "ops/backend/device/matrix.h"

namespace horo::ops {
namespace {

using device_kernels::visit_float_type;

/// Allocates a tensor like `like` and calls launch(zero of its type, tensor), which writes it.
template <typename Launch>
Tensor made_like(DeviceBackend& backend, const Tensor& like, Launch launch) {
  Tensor result = backend.allocate(like.shape(), like.type());
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

/// The matrices [channels, pixels] of a tensor of that shape whose transposition leads from host
/// order to own order. Without a transposition this is one row.
device_kernels::MatrixBatch channels_and_pixels(const Shape& shape, ImageLayout layout) {
  if (shape.rank() != 4 || layout == ImageLayout::kChannelsFirst) return {1, 1, shape.count()};
  return {shape[0], shape[1], shape[2] * shape[3]};
}

/// Returns `x` in another type and with the rows and columns of its matrices exchanged. One kernel
/// does both. If neither changes a value, returns `x` itself.
Tensor transposed(DeviceBackend& backend, Tensor x, const device_kernels::MatrixBatch& shape,
                  DataType type) {
  HORO_CHECK(x.device() == &backend.device(),
             fmt::format("a tensor of shape {} is in {}, but the model computes on {}",
                         x.shape().to_string(),
                         x.device() == nullptr ? "host memory" : x.device()->describe(),
                         backend.device().describe()));
  if (x.type() == type && is_vector(shape)) return x;
  if (is_vector(shape)) return backend.converted(x, type);
  Tensor y = backend.allocate(x.shape(), type);
  visit_both(x, y, [&](auto from_zero, auto to_zero) {
    device_kernels::transpose(backend.stream(), y.data<decltype(to_zero)>(),
                              std::as_const(x).data<decltype(from_zero)>(), shape);
  });
  return y;
}

}  // namespace

Tensor DeviceBackend::in_own_order(Tensor x, DataType type) {
  const auto shape = channels_and_pixels(x.shape(), layout());
  return transposed(*this, std::move(x), shape, type);
}

Tensor DeviceBackend::in_host_order(Tensor x, DataType type) {
  const auto shape = channels_and_pixels(x.shape(), layout());
  return transposed(*this, std::move(x), {shape.batch, shape.columns, shape.rows}, type);
}

Tensor DeviceBackend::converted(const Tensor& x, DataType type) {
  Tensor y = allocate(x.shape(), type);
  visit_both(x, y, [&](auto from_zero, auto to_zero) {
    device_kernels::convert(stream(), y.data<decltype(to_zero)>(), x.data<decltype(from_zero)>(),
                            x.count());
  });
  return y;
}

// The staged tensor may be freed at the end of the function, because the allocator reuses memory in
// stream order.
Tensor DeviceBackend::from_host(Tensor host) {
  Tensor staged = allocate(host.shape(), DataType::kFloat32);
  transfer_.upload(host, staged, stream());
  return in_own_order(std::move(staged), DataType::kFloat32);
}

Tensor DeviceBackend::to_host(const Tensor& own) {
  Tensor host(own.shape());
  transfer_.download(in_host_order(own.shared(), DataType::kFloat32), host, stream());
  return host;
}

// The element-wise functions do not depend on the layout: they combine values at the same position.
Tensor DeviceBackend::relu(Tensor x) {
  return made_like(*this, x, [&]<typename T>(T, Tensor& y) {
    device_kernels::relu_forward(stream(), y.data<T>(), x.data<T>(), x.count());
  });
}

Tensor DeviceBackend::add_relu(Tensor a, const Tensor& b) {
  return made_like(*this, a, [&]<typename T>(T, Tensor& y) {
    device_kernels::add_relu(stream(), y.data<T>(), a.data<T>(), b.data<T>(), a.count());
  });
}

Tensor DeviceBackend::relu_backward(Tensor dy, const Tensor& y) {
  return made_like(*this, dy, [&]<typename T>(T, Tensor& dx) {
    device_kernels::relu_backward(stream(), dx.data<T>(), dy.data<T>(), y.data<T>(), dy.count());
  });
}

Tensor DeviceBackend::add_relu_backward(Tensor a, const Tensor& b, const Tensor& y) {
  return made_like(*this, a, [&]<typename T>(T, Tensor& dx) {
    device_kernels::add_relu_backward(stream(), dx.data<T>(), a.data<T>(), b.data<T>(), y.data<T>(),
                                      a.count());
  });
}

Tensor DeviceBackend::add(Tensor a, const Tensor& b) {
  return made_like(*this, a, [&]<typename T>(T, Tensor& y) {
    device_kernels::add(stream(), y.data<T>(), a.data<T>(), b.data<T>(), a.count());
  });
}

Tensor DeviceBackend::gelu(const Tensor& x) {
  return made_like(*this, x, [&]<typename T>(T, Tensor& y) {
    device_kernels::gelu_forward(stream(), y.data<T>(), x.data<T>(), x.count());
  });
}

Tensor DeviceBackend::gelu_backward(Tensor dy, const Tensor& x) {
  return made_like(*this, dy, [&]<typename T>(T, Tensor& dx) {
    device_kernels::gelu_backward(stream(), dx.data<T>(), dy.data<T>(), x.data<T>(), dy.count());
  });
}

// The mask is drawn in the feature order of the host, so that host and device drop the same values.
// It is not stored: the backward pass draws it again.
Tensor DeviceBackend::dropout(Tensor x, const device_kernels::DropoutDraw& draw, Tensor&) {
  const DataType type = x.type();
  const Tensor ordered = in_host_order(std::move(x), type);
  const std::size_t rows = ordered.shape()[0];
  Tensor result = made_like(*this, ordered, [&]<typename T>(T, Tensor& y) {
    device_kernels::dropout(stream(), y.data<T>(), ordered.data<T>(), rows, ordered.count() / rows,
                            draw);
  });
  return in_own_order(std::move(result), type);
}

void DeviceBackend::add_to(Tensor& to, const Tensor& sum, const Tensor& values) {
  if (values.type() == DataType::kFloat32)
    return device_kernels::add(stream(), to.data(), sum.data(), values.data(), sum.count());
  Tensor wide = converted(values, DataType::kFloat32);
  float* const result = to.type() == DataType::kFloat32 ? to.data() : wide.data();
  device_kernels::add(stream(), result, sum.data(), std::as_const(wide).data(), sum.count());
  if (to.type() != DataType::kFloat32)
    visit_float_type(to.type(), "gradients", [&]<typename T>(T) {
      device_kernels::convert(stream(), to.data<T>(), std::as_const(wide).data(), to.count());
    });
}

// The row scores are freed as soon as the work is submitted: the allocator reuses their memory in
// stream order.
void DeviceBackend::cross_entropy(const Tensor& logits, const Tensor& targets,
                                  const CrossEntropyOptions& options, const LossArguments& to) {
  using device_kernels::RowScore;
  const std::size_t rows = targets.count();
  const device::Memory scores = allocator().allocate(rows * sizeof(RowScore), stream());
  visit_float_type(logits.type(), "logits", [&]<typename T>(T) {
    device_kernels::softmax_cross_entropy(
        stream(), logits.data<T>(), targets.data<std::int32_t>(),
        {rows, logits.count() / rows, to.normaliser, to.loss_scale, to.loss, options},
        to.gradient == nullptr ? nullptr : to.gradient->data<T>(),
        reinterpret_cast<RowScore*>(scores.data()), to.score);
  });
}

void DeviceBackend::squared_error(const Tensor& output, const Tensor& targets,
                                  const LossArguments& to) {
  using device_kernels::RowScore;
  const std::size_t rows = output.shape()[0];
  const device::Memory scores = allocator().allocate(rows * sizeof(RowScore), stream());
  visit_float_type(output.type(), "the output of the model", [&]<typename T>(T) {
    device_kernels::squared_error(
        stream(), output.data<T>(), targets.data(),
        {rows, output.count() / rows, to.normaliser, to.loss_scale, to.loss},
        to.gradient == nullptr ? nullptr : to.gradient->data<T>(),
        reinterpret_cast<RowScore*>(scores.data()), to.score);
  });
}

}  // namespace horo::ops
