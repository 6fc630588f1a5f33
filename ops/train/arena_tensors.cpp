#include "ops/train/arena_tensors.h"

#include <algorithm>
#include <memory>

#include "horo/base/log.h"

namespace horo::ops {
namespace {

constexpr std::size_t kLine = 64;

std::size_t bytes_of(const Tensor& tensor) {
  return (tensor.count() * sizeof(float) + kLine - 1) / kLine * kLine;
}

}  // namespace

void move_to_arena(Context& context, std::span<Tensor* const> tensors) {
  std::size_t bytes = kLine;  // an arena cannot be empty
  for (const Tensor* tensor : tensors) bytes += bytes_of(*tensor);
  if (context.size() == context.node_count()) return;  // no rank shares its node
  try {
    const auto arena = std::make_shared<Arena>(context.allocate(bytes));
    for (Tensor* tensor : tensors) {
      void* memory = arena->resource()->allocate(bytes_of(*tensor), kLine);
      Tensor moved(tensor->shape(), static_cast<float*>(memory), arena);
      std::ranges::copy(tensor->values(), moved.data());
      *tensor = std::move(moved);
    }
  } catch (const SharedMemoryError& error) {
    if (context.rank() == 0)
      log_warning("gradients are exchanged through a staging copy: {}", error.what());
  }
}

}  // namespace horo::ops
