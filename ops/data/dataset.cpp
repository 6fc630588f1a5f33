#include "ops/data/dataset.h"

#include <fmt/core.h>

#include "horo/base/error.h"

namespace horo::ops {

void Dataset::check_copy(std::size_t index, std::size_t value_count) const {
  HORO_CHECK(index < size(), fmt::format("sample {} of a data set of {}", index, size()));
  HORO_CHECK(value_count == sample_shape().count(),
             fmt::format("a sample has shape {}, the buffer for it has {} values",
                         sample_shape().to_string(), value_count));
}

}  // namespace horo::ops
