#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/base/data_type.h"

namespace horo {

namespace device {
class Device;
}

/// The dimensions of a tensor, outermost first. A shape without dimensions is a scalar (one
/// element).
class Shape {
 public:
  /// One dimension, of any integer type.
  class Dimension {
   public:
    /// The dimension `value`; Shape rejects a negative one.
    template <std::integral Integer>
    constexpr Dimension(Integer value)  // NOLINT: integers convert
        : value_(static_cast<std::size_t>(value)), is_negative_(std::cmp_less(value, 0)) {}

   private:
    friend class Shape;
    std::size_t value_;
    bool is_negative_;
  };

  Shape() = default;
  /// Throws InvalidArgument, with the dimensions, if one of them is negative.
  Shape(std::initializer_list<Dimension> dimensions);
  /// A shape with these dimensions, outermost first.
  explicit Shape(std::vector<std::size_t> dimensions) : dimensions_(std::move(dimensions)) {}

  std::size_t rank() const { return dimensions_.size(); }  ///< the number of dimensions
  /// The dimension `axis`, which must be below rank().
  std::size_t operator[](std::size_t axis) const { return dimensions_[axis]; }
  /// The dimensions, outermost first.
  const std::vector<std::size_t>& dimensions() const { return dimensions_; }
  /// The number of elements: the product of the dimensions. Throws InvalidArgument, with the shape,
  /// if it is 2^63 or more.
  std::size_t count() const;
  /// Returns a text such as "[64, 3, 7, 7]".
  std::string to_string() const;

  /// Whether two shapes have the same dimensions.
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::size_t> dimensions_;
};

/// A container whose memory a view may refer to: an lvalue, or a temporary that does not own its
/// elements (std::span; other views set std::ranges::enable_borrowed_range).
template <typename Range>
concept BorrowableRange =
    std::ranges::contiguous_range<Range> && std::ranges::borrowed_range<Range>;
/// A temporary that owns its elements, such as std::vector<float>(3). It may be destroyed before an
/// operation uses the elements.
template <typename Range>
concept OwningTemporary =
    std::ranges::contiguous_range<Range> && !std::ranges::borrowed_range<Range>;

/// A borrowed, contiguous, row-major, read-only tensor: pointer, element type, shape and the device
/// whose memory it is. The caller must keep the memory alive and unchanged until the operation on
/// the view has completed. Every constructor throws InvalidArgument, with the shape, if the tensor
/// has 2^63 bytes or more.
class ConstTensorView {
 public:
  ConstTensorView() = default;
  /// A tensor in host memory.
  ConstTensorView(const void* data, DataType type, Shape shape);
  /// The same, with the element type of the pointer.
  template <typename T>
  ConstTensorView(const T* data, Shape shape)
      : ConstTensorView(static_cast<const void*>(data), checked_type<T>(), std::move(shape)) {}
  /// A tensor in the memory of `device`, which must outlive the view.
  ConstTensorView(const void* data, DataType type, Shape shape, device::Device& device);
  /// The same, with the element type of the pointer.
  template <typename T>
  ConstTensorView(const T* data, Shape shape, device::Device& device)
      : ConstTensorView(static_cast<const void*>(data), checked_type<T>(), std::move(shape),
                        device) {}
  /// A one-dimensional view of a std::vector, std::array, std::span or other contiguous container.
  template <BorrowableRange Range>
  ConstTensorView(Range&& range)  // NOLINT: containers convert
      : ConstTensorView(std::ranges::data(range),
                        Shape(std::vector<std::size_t>{std::ranges::size(range)})) {}
  template <OwningTemporary Range>
  ConstTensorView(Range&&) = delete;  // a view does not keep a temporary alive: name a variable

  const void* data() const { return data_; }     ///< the address of the first element
  DataType type() const { return type_; }        ///< the type of the elements
  const Shape& shape() const { return shape_; }  ///< the dimensions
  std::size_t count() const { return count_; }   ///< the number of elements
  /// The size of the tensor in bytes.
  std::size_t bytes() const { return count_ * size_of(type_); }
  /// The device whose memory contains the tensor. Null if the tensor is in host memory.
  device::Device* device() const { return device_; }

 protected:
  /// The DataType of `T`. An unsupported type fails to compile, with the list of supported types.
  template <typename T>
  static constexpr DataType checked_type() {
    static_assert(Element<T>,
                  "the element type must be float, double, horo::Float16, horo::BFloat16, "
                  "std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, "
                  "std::int64_t or bool");
    if constexpr (Element<T>)
      return data_type_of<T>;
    else
      return DataType::kFloat32;
  }

 private:
  const void* data_ = nullptr;
  DataType type_ = DataType::kFloat32;
  Shape shape_{std::vector<std::size_t>{0}};
  std::size_t count_ = 0;
  device::Device* device_ = nullptr;
};

/// A ConstTensorView whose memory may be written.
class TensorView : public ConstTensorView {
 public:
  TensorView() = default;
  /// A tensor in host memory.
  TensorView(void* data, DataType type, Shape shape)
      : ConstTensorView(data, type, std::move(shape)) {}
  /// The same, with the element type of the pointer.
  template <typename T>
  requires(!std::is_const_v<T>) TensorView(T* data, Shape shape)
      : TensorView(static_cast<void*>(data), checked_type<T>(), std::move(shape)) {}
  /// A tensor in the memory of `device`, which must outlive the view.
  TensorView(void* data, DataType type, Shape shape, device::Device& device)
      : ConstTensorView(data, type, std::move(shape), device) {}
  /// The same, with the element type of the pointer.
  template <typename T>
  requires(!std::is_const_v<T>) TensorView(T* data, Shape shape, device::Device& device)
      : TensorView(static_cast<void*>(data), checked_type<T>(), std::move(shape), device) {}
  /// A one-dimensional view of a container with mutable elements.
  template <BorrowableRange Range>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      TensorView(Range&& range)  // NOLINT: containers convert
      : TensorView(std::ranges::data(range),
                   Shape(std::vector<std::size_t>{std::ranges::size(range)})) {}
  template <OwningTemporary Range>
  TensorView(Range&&) = delete;  // a view does not keep a temporary alive: name a variable

  /// The address of the first element.
  void* data() const { return const_cast<void*>(ConstTensorView::data()); }
};

/// A tensor and the name by which the ranks match it.
struct NamedTensor {
  std::string name;   ///< not empty, and different for each tensor of a list
  TensorView tensor;  ///< its memory must stay in place as the operation that uses it requires
};

}  // namespace horo
