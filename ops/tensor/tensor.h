#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "horo/base/tensor_view.h"
#include "horo/device/memory.h"

/// Tensors, layers, optimizers, data sets and the trainer.
namespace horo::ops {

/// A dense tensor of any element type, in host memory or in the memory of a device. It owns its
/// memory or shares it with other owners. Movable; clone() copies. Work of a device that uses it
/// must complete before the memory is freed, unless a stream-ordered allocator owns the memory. Not
/// thread-safe.
class Tensor {
 public:
  Tensor() = default;
  /// The other tensor becomes empty.
  Tensor(Tensor&& other) noexcept;
  /// Releases the memory of this tensor first. The other tensor becomes empty.
  Tensor& operator=(Tensor&& other) noexcept;
  /// Allocates host memory (64-byte aligned) with uninitialised values.
  explicit Tensor(Shape shape, DataType type = DataType::kFloat32);
  /// Takes over `memory` of `device`, which must outlive the tensor. Throws InvalidArgument if the
  /// memory is smaller than the tensor.
  Tensor(Shape shape, DataType type, device::Device& device, device::Memory memory);
  /// Makes a tensor of the memory at `data`, which `owner` keeps alive. `device` is null for host
  /// memory.
  Tensor(Shape shape, DataType type, std::byte* data, const std::shared_ptr<const void>& owner,
         device::Device* device = nullptr);
  /// A float32 tensor in host memory.
  static Tensor zeros(Shape shape);

  const Shape& shape() const { return shape_; }  ///< the dimensions
  DataType type() const { return type_; }        ///< the type of the elements
  /// The device whose memory contains the tensor. Null if the tensor is in host memory.
  device::Device* device() const { return device_; }
  std::size_t count() const { return count_; }  ///< the number of elements
  /// The size of the elements in bytes.
  std::size_t bytes() const { return count_ * size_of(type_); }

  /// The address of the first element, in the memory of device().
  std::byte* raw() { return data_.get(); }
  /// The same, read-only.
  const std::byte* raw() const { return data_.get(); }
  /// The address of the elements, in the memory of device(). Throws InvalidArgument for another
  /// type than the tensor's.
  template <Element T = float>
  T* data() {
    require(data_type_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// The same, read-only.
  template <Element T = float>
  const T* data() const {
    require(data_type_of<T>);
    return reinterpret_cast<const T*>(raw());
  }
  /// The elements of a tensor in host memory. Throws as data() does, and for a tensor of a device.
  template <Element T = float>
  std::span<T> values() {
    require_host();
    return {data<T>(), count_};
  }
  /// The same, read-only.
  template <Element T = float>
  std::span<const T> values() const {
    require_host();
    return {data<T>(), count_};
  }

  /// Returns a view of the whole tensor. Valid while the memory is.
  TensorView view();

  /// Sets all values of a float32 tensor in host memory.
  void fill(float value);
  /// Returns a copy of a tensor in host memory.
  Tensor clone() const;
  /// Returns a second tensor that shares the ownership of the same memory.
  Tensor shared() const;
  /// Returns entries [first, first + count) of the first dimension. They share the memory.
  Tensor rows(std::size_t first, std::size_t count) const;
  /// Whether no other tensor shares the memory, so that it may be overwritten.
  bool is_unique() const { return data_.use_count() == 1; }
  /// Returns the same values with another shape of the same count. This tensor becomes empty.
  Tensor reshaped(Shape shape) &&;

 private:
  void require(DataType type) const;
  void require_host() const;

  Shape shape_{0};
  std::size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
  device::Device* device_ = nullptr;
  std::shared_ptr<std::byte> data_;
};

}  // namespace horo::ops
