// The functions of rows and sequences of DeviceBackend. Temporary arrays are freed as soon as the
// work is submitted: the allocator reuses their memory in stream order.
#include <fmt/format.h>

#include "horo/base/error.h"
#include "ops/backend/device/attention.h"
#include "ops/backend/device/device_backend.h"
#include "ops/backend/device/embedding.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/norm/layer_norm.h"

namespace horo::ops {
namespace {

using device_kernels::EmbeddingShape;
using device_kernels::NormShape;
using device_kernels::NormStatistics;
using device_kernels::visit_float_type;

NormShape rows_of(const Tensor& x, const Tensor& scale) {
  return {x.count() / scale.count(), scale.count()};
}

/// `statistics` [2, rows]. The kernels of the backward pass only read it.
NormStatistics statistics_in(const Tensor& statistics) {
  auto* const mean = const_cast<float*>(statistics.data());
  return {mean, mean + statistics.count() / 2};
}

/// Adds the dimension `width` to a shape.
Shape with_width(const Shape& tokens, std::size_t width) {
  std::vector<std::size_t> dimensions = tokens.dimensions();
  dimensions.push_back(width);
  return Shape(std::move(dimensions));
}

std::size_t last_dimension(const Shape& shape) { return shape[shape.rank() - 1]; }

}  // namespace

Tensor DeviceBackend::layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift,
                                 float epsilon, Tensor& statistics) {
  const NormShape shape = rows_of(x, scale);
  statistics = allocate({2, shape.rows}, DataType::kFloat32);
  Tensor y = allocate(x.shape(), x.type());
  visit_float_type(x.type(), "the input of a LayerNorm", [&]<typename T>(T) {
    device_kernels::layer_norm_forward(stream(), y.data<T>(), x.data<T>(), scale.data(),
                                       shift.data(), shape, epsilon, statistics_in(statistics));
  });
  return y;
}

Tensor DeviceBackend::layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& scale,
                                          const Tensor& statistics, Tensor& scale_gradient,
                                          Tensor& shift_gradient) {
  const NormShape shape = rows_of(x, scale);
  const NormStatistics of_rows = statistics_in(statistics);
  Tensor sums = allocate({device_kernels::count_norm_sums(shape)}, DataType::kFloat32);
  Tensor dx = allocate(x.shape(), x.type());
  visit_float_type(x.type(), "the input of a LayerNorm", [&]<typename T>(T) {
    const T* const gradient = std::as_const(dy).data<T>();
    device_kernels::layer_norm_parameters_backward(stream(), scale_gradient.data(),
                                                   shift_gradient.data(), gradient, x.data<T>(),
                                                   shape, of_rows, sums.data());
    device_kernels::layer_norm_backward(stream(), dx.data<T>(), gradient, x.data<T>(), scale.data(),
                                        shape, of_rows);
  });
  return dx;
}

Tensor DeviceBackend::embedding(const Tensor& tokens, const Tensor& table,
                                const Tensor& position_table) {
  const EmbeddingShape shape{tokens.count(), table.shape()[0], table.shape()[1]};
  Tensor y = allocate(with_width(tokens.shape(), shape.width), table.type());
  visit_float_type(table.type(), "an embedding", [&]<typename T>(T) {
    device_kernels::embedding_forward(
        stream(), y.data<T>(), table.data<T>(), tokens.data<std::int32_t>(), shape,
        position_table.count() > 0 ? position_table.data<T>() : nullptr,
        last_dimension(tokens.shape()));
  });
  return y;
}

void DeviceBackend::embedding_backward(const Tensor& dy, const Tensor& tokens,
                                       Tensor& table_gradient, Tensor& position_gradient) {
  const EmbeddingShape shape{tokens.count(), table_gradient.shape()[0], table_gradient.shape()[1]};
  visit_float_type(dy.type(), "the gradient of an embedding", [&]<typename T>(T) {
    device_kernels::embedding_backward(stream(), table_gradient.data<T>(), dy.data<T>(),
                                       tokens.data<std::int32_t>(), shape);
    if (position_gradient.count() > 0)
      device_kernels::positions_backward(stream(), position_gradient.data<T>(),
                                         position_gradient.shape()[0], dy.data<T>(), shape.tokens,
                                         last_dimension(tokens.shape()), shape.width);
  });
}

Tensor DeviceBackend::attention(const Tensor& qkv, const AttentionShape& shape, Tensor& kept) {
  HORO_CHECK(shape.head_size <= device_kernels::kMaxHeadSize,
             fmt::format("attention on a device: a head has {} features; at most {} are supported",
                         shape.head_size, device_kernels::kMaxHeadSize));
  Tensor y = allocate({shape.batch, shape.positions, shape.width()}, qkv.type());
  kept = allocate({shape.rows()}, DataType::kFloat32);
  visit_float_type(qkv.type(), "attention", [&]<typename T>(T) {
    device_kernels::attention_forward(stream(), y.data<T>(), kept.data(), qkv.data<T>(), shape);
  });
  return y;
}

Tensor DeviceBackend::attention_backward(const Tensor& dy, const Tensor& y, const Tensor& qkv,
                                         const AttentionShape& shape, const Tensor& kept) {
  Tensor dqkv = allocate(qkv.shape(), qkv.type());
  Tensor products = allocate({shape.rows()}, DataType::kFloat32);
  visit_float_type(qkv.type(), "attention", [&]<typename T>(T) {
    device_kernels::attention_backward(stream(), dqkv.data<T>(), dy.data<T>(), y.data<T>(),
                                       qkv.data<T>(), kept.data(), products.data(), shape);
  });
  return dqkv;
}

}  // namespace horo::ops
