#include "ops/tensor/tensor.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector register

// Leaves the values uninitialised, since most tensors are overwritten at once. The alignment of the
// deallocation must be that of the allocation.
std::shared_ptr<float[]> allocate(const Shape& shape) {
  const std::size_t count = shape.count();
  // Larger counts would overflow the size in bytes below.
  HORO_CHECK(count <= std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float),
             "a tensor of shape " + shape.to_string() + " does not fit into memory");
  if (count == 0) return nullptr;
  return {static_cast<float*>(::operator new(count * sizeof(float), kAlignment)),
          [](float* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace

Tensor::Tensor(Shape shape)
    : shape_(std::move(shape)), count_(shape_.count()), data_(allocate(shape_)) {}

// Aliasing: `owner` keeps the memory alive, and this tensor never frees `data` itself.
Tensor::Tensor(Shape shape, float* data, const std::shared_ptr<const void>& owner)
    : shape_(std::move(shape)), count_(shape_.count()), data_(owner, data) {}

Tensor Tensor::zeros(Shape shape) {
  Tensor tensor(std::move(shape));
  tensor.fill(0.0f);
  return tensor;
}

void Tensor::fill(float value) { std::fill_n(data_.get(), count_, value); }

Tensor Tensor::clone() const {
  Tensor copy(shape_);
  std::copy_n(data_.get(), count_, copy.data());
  return copy;
}

// Elements are contiguous and row-major in every shape, so no value moves.
Tensor Tensor::reshaped(Shape shape) && {
  HORO_CHECK(shape.count() == count_, "cannot reshape a tensor of shape " + shape_.to_string() +
                                          " to " + shape.to_string() +
                                          ": the counts of elements differ");
  Tensor result;
  result.shape_ = std::move(shape);
  result.count_ = std::exchange(count_, 0);
  result.data_ = std::move(data_);
  shape_ = Shape{0};
  return result;
}

}  // namespace horo::ops
