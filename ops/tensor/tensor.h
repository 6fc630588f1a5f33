#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// A dense row-major float32 tensor in host memory. It owns its memory (64-byte aligned) or shares
/// that of another owner. Movable; clone() copies. Not thread-safe.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  /// Allocates a tensor with uninitialised values.
  explicit Tensor(Shape shape);
  /// Makes a tensor of the values at `data`, which `owner` keeps alive.
  Tensor(Shape shape, float* data, const std::shared_ptr<const void>& owner);
  static Tensor zeros(Shape shape);

  const Shape& shape() const { return shape_; }
  std::size_t count() const { return count_; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::span<float> values() { return {data_.get(), count_}; }
  std::span<const float> values() const { return {data_.get(), count_}; }

  /// Returns a view of the whole tensor. Valid for the lifetime of the tensor.
  TensorView view() { return TensorView(data_.get(), shape_); }

  void fill(float value);
  Tensor clone() const;
  /// Returns the same values with another shape of the same count. This tensor becomes empty.
  Tensor reshaped(Shape shape) &&;

 private:
  Shape shape_{0};
  std::size_t count_ = 0;
  std::shared_ptr<float[]> data_;
};

}  // namespace horo::ops
