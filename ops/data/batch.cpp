#include "ops/data/batch.h"

#include <algorithm>

namespace horo::ops {

Batch rows_of(const Batch& batch, std::size_t first, std::size_t count) {
  Batch result =
      map_tensors(batch, [&](const Tensor& tensor) { return tensor.rows(first, count); });
  const std::size_t end = first + count;
  result.padding = end - std::clamp(batch.counted_rows(), first, end);
  return result;
}

}  // namespace horo::ops
