#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// A dense row-major float32 tensor that owns its host memory (64-byte aligned). Moved, not copied;
/// clone() copies. Not synchronised.
class Tensor {
 public:
  Tensor() = default;
  /// Uninitialised values.
  explicit Tensor(Shape shape);
  static Tensor zeros(Shape shape);

  const Shape& shape() const { return shape_; }
  std::size_t count() const { return count_; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::span<float> values() { return {data_.get(), count_}; }
  std::span<const float> values() const { return {data_.get(), count_}; }

  /// The whole tensor as horo's API takes it. Valid while the tensor lives.
  TensorView view() { return TensorView(data_.get(), shape_); }

  void fill(float value);
  Tensor clone() const;
  /// The same values under another shape of the same count; this tensor becomes empty.
  Tensor reshaped(Shape shape) &&;

 private:
  struct Free {
    void operator()(float* memory) const noexcept;
  };
  Shape shape_{0};
  std::size_t count_ = 0;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace horo::ops
