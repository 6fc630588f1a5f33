#include "ops/data/batch.h"

#include <algorithm>
#include <utility>

namespace horo::ops {

Batch with_tensors(const Batch& batch, Tensor inputs, Tensor targets, Tensor samples) {
  return {batch.where,     std::move(inputs), std::move(targets), std::move(samples),
          batch.is_pinned, batch.padding,     batch.pixel_scales};
}

Batch rows_of(const Batch& batch, std::size_t first, std::size_t count) {
  Batch result = with_tensors(batch, batch.inputs.rows(first, count),
                              batch.targets.rows(first, count), batch.samples.rows(first, count));
  const std::size_t end = first + count;
  result.padding = end - std::clamp(batch.counted_rows(), first, end);
  return result;
}

}  // namespace horo::ops
