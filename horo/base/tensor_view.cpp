#include "horo/base/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace horo {

std::size_t Shape::count() const {
  std::size_t product = 1;
  for (std::size_t dimension : dimensions_) product *= dimension;
  return product;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dimensions_, ", ")); }

}  // namespace horo
