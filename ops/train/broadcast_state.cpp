#include "ops/train/broadcast_state.h"

#include <fmt/format.h>

#include <vector>

namespace horo::ops {

void broadcast_state(Context& context, Layer& model, Sgd& optimizer) {
  std::vector<NamedTensor> tensors;
  for (Parameter* parameter : model.parameters())
    tensors.push_back({"train.parameter." + parameter->name, parameter->value.view()});
  for (Parameter* buffer : model.buffers())
    tensors.push_back({"train.buffer." + buffer->name, buffer->value.view()});
  for (Tensor& momentum : optimizer.momentum_buffers())
    tensors.push_back({fmt::format("train.momentum.{}", tensors.size()), momentum.view()});
  if (!tensors.empty()) context.broadcast_group(tensors, {.name = "train.state"});
}

}  // namespace horo::ops
