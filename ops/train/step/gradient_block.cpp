#include "ops/train/step/gradient_block.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::ops {
namespace {

std::size_t padded(std::size_t bytes) { return round_up(bytes, GradientBlock::kAlignment); }

/// A block of memory that tensors own together. If `data` is null, the tensors stay where they are.
struct Block {
  std::shared_ptr<const void> owner;
  std::byte* data = nullptr;
};

Block allocate_arena(Context& context, std::size_t bytes) {
  if (context.size() == context.node_count()) return {};  // no rank shares its node
  try {
    const auto arena = std::make_shared<Arena>(context.allocate(bytes));
    return {arena, arena->bytes().data()};
  } catch (const SharedMemoryError& error) {
    if (context.rank() == 0)
      log_warning("gradients are exchanged through a staging copy: {}", error.what());
    return {};
  }
}

Block allocate_on_device(device::Stream& stream, device::Device& device, std::size_t bytes) {
  const auto memory = std::make_shared<device::Memory>(allocate_for_exchange(device, bytes));
  stream.fill(memory->data(), 0, bytes);
  return {memory, memory->data()};
}

}  // namespace

// Backward computes the loss first, then the gradients from the last layer to the first. Tensors of
// one type are adjacent because a bucket has one type.
GradientBlock::GradientBlock(Context& context, Backend& backend,
                             const std::vector<Parameter*>& parameters)
    : scalars_(backend.allocate({sizeof(StepScalars) / sizeof(float)}, DataType::kFloat32)) {
  std::vector<Tensor*> in_order = {&scalars_};
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16})
    for (std::size_t i = parameters.size(); i-- > 0;)
      if (parameters[i]->gradient.type() == type) in_order.push_back(&parameters[i]->gradient);
  std::size_t bytes = 0;
  for (const Tensor* tensor : in_order) bytes += padded(tensor->bytes());

  device::Stream* const stream = backend.device_stream();
  device::Device* const device = scalars_.device();
  const Block block = stream == nullptr ? allocate_arena(context, bytes)
                                        : allocate_on_device(*stream, *device, bytes);
  std::byte* next = block.data;
  if (next != nullptr)
    for (Tensor* tensor : in_order) {
      if (stream == nullptr) std::copy_n(tensor->raw(), tensor->bytes(), next);
      const std::size_t size = padded(tensor->bytes());
      *tensor = Tensor(tensor->shape(), tensor->type(), std::exchange(next, next + size),
                       block.owner, device);
    }
  const auto add = [&](const std::string& name, Tensor& tensor) {
    const Shape with_padding{padded(tensor.bytes()) / size_of(tensor.type())};
    tensors_.push_back(
        {name, stream == nullptr ? tensor.view()
                                 : TensorView(tensor.raw(), tensor.type(), with_padding, *device)});
  };
  for (Parameter* parameter : parameters) add(parameter->name, parameter->gradient);
  add(kScalarsName, scalars_);
}

}  // namespace horo::ops
