#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"

namespace horo {

/// Dimensions of a tensor, outermost first. Empty: a scalar (one element).
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::size_t> dimensions) : dimensions_(dimensions) {}
  explicit Shape(std::vector<std::size_t> dimensions) : dimensions_(std::move(dimensions)) {}

  std::size_t rank() const { return dimensions_.size(); }
  std::size_t operator[](std::size_t axis) const { return dimensions_[axis]; }
  const std::vector<std::size_t>& dimensions() const { return dimensions_; }
  /// Product of the dimensions.
  std::size_t count() const;
  /// "[64, 3, 7, 7]"
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::size_t> dimensions_;
};

/// A borrowed, contiguous, row-major tensor in host memory: pointer, element type and shape.
/// The caller keeps the memory alive and untouched until the operation that was given the view has
/// completed.
class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DataType type, Shape shape)
      : data_(data), type_(type), shape_(std::move(shape)), count_(shape_.count()) {}
  template <Element T>
  TensorView(T* data, Shape shape)
      : TensorView(static_cast<void*>(data), data_type_of<T>, std::move(shape)) {}
  /// One dimension: a std::vector, std::array, std::span or other contiguous container.
  template <std::ranges::contiguous_range Range>
  requires Element<std::ranges::range_value_t<Range>> &&
      (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
          TensorView(Range&& range)  // NOLINT: containers convert
      : TensorView(std::ranges::data(range), Shape{std::ranges::size(range)}) {}

  void* data() const { return data_; }
  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * size_of(type_); }

 private:
  void* data_ = nullptr;
  DataType type_ = DataType::kFloat32;
  Shape shape_{0};
  std::size_t count_ = 0;
};

/// A tensor and the name under which the ranks agree on it.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

}  // namespace horo
