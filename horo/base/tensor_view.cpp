#include "horo/base/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "horo/base/error.h"

namespace horo {

// Rejects negative dimensions. Otherwise the conversion to std::size_t would turn them into huge
// positive dimensions.
Shape::Shape(std::initializer_list<Dimension> dimensions) {
  dimensions_.reserve(dimensions.size());
  for (const Dimension& dimension : dimensions) dimensions_.push_back(dimension.value_);
  if (std::ranges::none_of(dimensions, &Dimension::is_negative_)) return;
  std::vector<std::string> given;
  for (const Dimension& dimension : dimensions)
    given.push_back(dimension.is_negative_
                        ? fmt::format("{}", static_cast<std::int64_t>(dimension.value_))
                        : fmt::format("{}", dimension.value_));
  throw InvalidArgument(
      fmt::format("shape [{}]: a dimension must not be negative", fmt::join(given, ", ")));
}

// A dimension of 0 makes the count 0, even if the product of the other dimensions overflows. The
// limit PTRDIFF_MAX keeps differences of pointers and indices of every element valid.
std::size_t Shape::count() const {
  if (std::ranges::find(dimensions_, std::size_t{0}) != dimensions_.end()) return 0;
  std::size_t product = 1;
  for (const std::size_t dimension : dimensions_)
    HORO_CHECK(!__builtin_mul_overflow(product, dimension, &product) && product <= PTRDIFF_MAX,
               fmt::format("shape {} has 2^63 elements or more", to_string()));
  return product;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dimensions_, ", ")); }

ConstTensorView::ConstTensorView(const void* data, DataType type, Shape shape)
    : data_(data), type_(type), shape_(std::move(shape)), count_(shape_.count()) {
  HORO_CHECK(
      count_ <= PTRDIFF_MAX / size_of(type),
      fmt::format("a tensor of {} {} has 2^63 bytes or more", name_of(type), shape_.to_string()));
}

ConstTensorView::ConstTensorView(const void* data, DataType type, Shape shape,
                                 device::Device& device)
    : ConstTensorView(data, type, std::move(shape)) {
  device_ = &device;
}

}  // namespace horo
