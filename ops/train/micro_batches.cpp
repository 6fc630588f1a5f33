#include "ops/train/micro_batches.h"

#include <algorithm>
#include <utility>

namespace horo::ops {
namespace {

Batch copy_samples(const Batch& batch, std::size_t first, std::size_t count) {
  std::vector<std::size_t> dimensions = batch.inputs.shape().dimensions();
  const std::size_t per_sample =
      batch.labels.empty() ? 0 : batch.inputs.count() / batch.labels.size();
  dimensions[0] = count;
  Batch part{.where = batch.where, .inputs = Tensor(Shape(std::move(dimensions)))};
  std::ranges::copy(batch.inputs.values().subspan(first * per_sample, count * per_sample),
                    part.inputs.data());
  const auto begin = static_cast<std::ptrdiff_t>(first);
  const auto end = static_cast<std::ptrdiff_t>(first + count);
  part.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
  part.samples.assign(batch.samples.begin() + begin, batch.samples.begin() + end);
  return part;
}

}  // namespace

std::vector<Batch> split_batch(Batch batch, std::size_t parts) {
  std::vector<Batch> result;
  if (parts == 1) {
    result.push_back(std::move(batch));
    return result;
  }
  const std::size_t samples = batch.labels.size();
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t count = samples / parts + (part < samples % parts ? 1 : 0);
    result.push_back(copy_samples(batch, first, count));
    first += count;
  }
  return result;
}

}  // namespace horo::ops
