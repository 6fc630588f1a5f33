#include "ops/train/broadcast_state.h"

#include <fmt/format.h>

#include <vector>

namespace horo::ops {

void broadcast_state(Context& context, Layer& model, Optimizer& optimizer) {
  std::vector<NamedTensor> tensors;
  for (Parameter* parameter : model.parameters())
    tensors.push_back({"train.parameter." + parameter->name, parameter->value.view()});
  for (Parameter* buffer : model.buffers())
    tensors.push_back({"train.buffer." + buffer->name, buffer->value.view()});
  for (const Optimizer::State& state : optimizer.states())
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      tensors.push_back({fmt::format("train.{}.{}", state.name, optimizer.parameters()[i]->name),
                         state.tensors[i].view()});
  if (const auto counters = optimizer.counters(); !counters.empty())
    tensors.push_back({"train.counters", TensorView(counters)});
  if (!tensors.empty()) context.broadcast_group(tensors, {.name = "train.state"});
}

}  // namespace horo::ops
