#include "ops/tensor/device_tensor.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

std::shared_ptr<std::byte> hold(device::Memory memory, std::size_t bytes) {
  HORO_CHECK(
      memory.size() >= bytes,
      fmt::format("a tensor of {} bytes does not fit into memory of {}", bytes, memory.size()));
  // An aliasing shared_ptr: it points to the data, and its control block owns the Memory. Tensors
  // that share the data free it together with the last of them.
  const auto owner = std::make_shared<device::Memory>(std::move(memory));
  return {owner, owner->data()};
}

}  // namespace

DeviceTensor::DeviceTensor(Shape shape, DataType type, device::Memory memory)
    : shape_(std::move(shape)), type_(type), data_(hold(std::move(memory), bytes())) {}

DeviceTensor::DeviceTensor(Shape shape, DataType type, std::byte* data,
                           const std::shared_ptr<const void>& owner)
    : shape_(std::move(shape)), type_(type), data_(owner, data) {}

DeviceTensor DeviceTensor::shared() const {
  DeviceTensor result;
  result.shape_ = shape_;
  result.type_ = type_;
  result.data_ = data_;
  return result;
}

// Moves the memory, so that no two tensors share it by accident; see shared().
DeviceTensor DeviceTensor::reshaped(Shape shape) && {
  HORO_CHECK(shape.count() == count(),
             fmt::format("cannot reshape a tensor of shape {} to {}: the counts of elements differ",
                         shape_.to_string(), shape.to_string()));
  DeviceTensor result;
  result.shape_ = std::move(shape);
  result.type_ = type_;
  result.data_ = std::move(data_);
  shape_ = Shape{0};
  return result;
}

}  // namespace horo::ops
