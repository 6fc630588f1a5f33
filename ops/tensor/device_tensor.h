#pragma once

#include <cstddef>
#include <memory>

#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"
#include "horo/device/memory.h"

namespace horo::ops {

/// A dense row-major tensor of any element type in device memory. It owns the memory or shares it
/// with another owner. Movable, not copyable. Work that uses it must complete before it is
/// destroyed, unless its memory comes from a stream-ordered allocator. Not thread-safe.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  /// Takes over `memory`. Throws InvalidArgument if it is smaller than the tensor.
  DeviceTensor(Shape shape, DataType type, device::Memory memory);
  /// Makes a tensor of the memory at `data`, which `owner` keeps alive.
  DeviceTensor(Shape shape, DataType type, std::byte* data,
               const std::shared_ptr<const void>& owner);
  DeviceTensor(DeviceTensor&&) noexcept = default;
  DeviceTensor& operator=(DeviceTensor&&) noexcept = default;

  const Shape& shape() const { return shape_; }
  DataType type() const { return type_; }
  std::size_t count() const { return shape_.count(); }
  std::size_t bytes() const { return count() * size_of(type_); }
  std::byte* data() const { return data_.get(); }

  /// Returns a second tensor that shares the ownership of the same memory.
  DeviceTensor shared() const;
  /// Returns the same values with another shape of the same count. This tensor becomes empty.
  DeviceTensor reshaped(Shape shape) &&;

 private:
  Shape shape_{0};
  DataType type_ = DataType::kFloat32;
  std::shared_ptr<std::byte> data_;
};

}  // namespace horo::ops
