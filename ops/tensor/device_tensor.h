#pragma once

#include <cstddef>
#include <memory>

#include "horo/base/data_type.h"
#include "horo/base/device/memory.h"
#include "horo/base/tensor_view.h"

namespace horo::ops {

/// A dense row-major tensor of any element type in a device's memory, of its own or of an owner
/// that it shares. Moved, not copied. Work that uses it must be done before it is destroyed, unless
/// its memory is from an allocator that sees to that. Not synchronised.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  /// What lies in `memory`, which is at least as large as the tensor: InvalidArgument otherwise.
  DeviceTensor(Shape shape, DataType type, device::Memory memory);
  /// What lies at `data`, which `owner` keeps alive.
  DeviceTensor(Shape shape, DataType type, std::byte* data,
               const std::shared_ptr<const void>& owner);
  DeviceTensor(DeviceTensor&&) noexcept = default;
  DeviceTensor& operator=(DeviceTensor&&) noexcept = default;

  const Shape& shape() const { return shape_; }
  DataType type() const { return type_; }
  std::size_t count() const { return shape_.count(); }
  std::size_t bytes() const { return count() * size_of(type_); }
  std::byte* data() const { return data_.get(); }

  /// The same memory, which lives as long as either.
  DeviceTensor shared() const;
  /// The same values under another shape of the same count; this tensor becomes empty.
  DeviceTensor reshaped(Shape shape) &&;

 private:
  Shape shape_{0};
  DataType type_ = DataType::kFloat32;
  std::shared_ptr<std::byte> data_;
};

}  // namespace horo::ops
