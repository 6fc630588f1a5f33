#include "ops/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/device.h"

namespace horo::ops {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector register

// Leaves the values uninitialised, since most tensors are overwritten at once. The alignment of the
// deallocation must be that of the allocation.
std::shared_ptr<std::byte> allocate(const Shape& shape, DataType type) {
  const std::size_t count = shape.count(), element = size_of(type);
  // Larger counts would overflow the size in bytes below.
  HORO_CHECK(count <= std::numeric_limits<std::ptrdiff_t>::max() / element,
             "a tensor of shape " + shape.to_string() + " does not fit into memory");
  if (count == 0) return nullptr;
  return {static_cast<std::byte*>(::operator new(count* element, kAlignment)),
          [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
}

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

Tensor::Tensor(Shape shape, DataType type)
    : shape_(std::move(shape)),
      count_(shape_.count()),
      type_(type),
      data_(allocate(shape_, type)) {}

Tensor::Tensor(Shape shape, DataType type, device::Device& device, device::Memory memory)
    : shape_(std::move(shape)),
      count_(shape_.count()),
      type_(type),
      device_(&device),
      data_(hold(std::move(memory), bytes())) {}

// Aliasing: `owner` keeps the memory alive, and this tensor never frees `data` itself.
Tensor::Tensor(Shape shape, DataType type, std::byte* data,
               const std::shared_ptr<const void>& owner, device::Device* device)
    : shape_(std::move(shape)),
      count_(shape_.count()),
      type_(type),
      device_(device),
      data_(owner, data) {}

Tensor::Tensor(Tensor&& other) noexcept { *this = std::move(other); }

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  shape_ = std::move(other.shape_);
  count_ = std::exchange(other.count_, 0);
  type_ = other.type_;
  device_ = other.device_;
  data_ = std::move(other.data_);
  return *this;
}

Tensor Tensor::zeros(Shape shape) {
  Tensor tensor(std::move(shape));
  tensor.fill(0.0f);
  return tensor;
}

void Tensor::require(DataType type) const {
  HORO_CHECK(type_ == type, fmt::format("the tensor has elements of type {}, not {}",
                                        name_of(type_), name_of(type)));
}

void Tensor::require_host() const {
  HORO_CHECK(device_ == nullptr,
             fmt::format("the values of a tensor on {} cannot be read by the host: copy it to host "
                         "memory first",
                         device_->describe()));
}

TensorView Tensor::view() {
  if (device_ == nullptr) return TensorView(raw(), type_, shape_);
  return TensorView(raw(), type_, shape_, *device_);
}

void Tensor::fill(float value) { std::ranges::fill(values(), value); }

Tensor Tensor::clone() const {
  require_host();
  Tensor copy(shape_, type_);
  std::copy_n(raw(), bytes(), copy.raw());
  return copy;
}

Tensor Tensor::shared() const {
  Tensor result;
  result.shape_ = shape_;
  result.count_ = count_;
  result.type_ = type_;
  result.device_ = device_;
  result.data_ = data_;
  return result;
}

// The first dimension is the outermost one in every layout, so its entries are contiguous.
Tensor Tensor::rows(std::size_t first, std::size_t count) const {
  std::vector<std::size_t> dimensions = shape_.dimensions();
  HORO_CHECK(!dimensions.empty() && first + count <= dimensions[0],
             fmt::format("rows {} to {} of a tensor of shape {}", first, first + count,
                         shape_.to_string()));
  const std::size_t row_bytes = dimensions[0] == 0 ? 0 : bytes() / dimensions[0];
  dimensions[0] = count;
  Tensor result = shared();
  result.shape_ = Shape(std::move(dimensions));
  result.count_ = result.shape_.count();
  result.data_ = {data_, data_.get() + first * row_bytes};
  return result;
}

// Elements are contiguous and row-major in every shape, so no value moves.
Tensor Tensor::reshaped(Shape shape) && {
  HORO_CHECK(shape.count() == count_, "cannot reshape a tensor of shape " + shape_.to_string() +
                                          " to " + shape.to_string() +
                                          ": the counts of elements differ");
  Tensor result = std::move(*this);
  result.shape_ = std::move(shape);
  return result;
}

}  // namespace horo::ops
