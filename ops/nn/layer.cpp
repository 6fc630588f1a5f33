#include "ops/nn/layer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace horo::ops {
namespace {

void append(std::vector<Parameter*>& all, const std::vector<Parameter*>& more) {
  std::ranges::copy(more, std::back_inserter(all));
}

}  // namespace

std::vector<Parameter*> Layer::parameters() {
  std::vector<Parameter*> all;
  for (Layer* child : children()) append(all, child->parameters());
  return all;
}

std::vector<Parameter*> Layer::buffers() {
  std::vector<Parameter*> all;
  for (Layer* child : children()) append(all, child->buffers());
  return all;
}

// The optimizer updates the float32 value. In bfloat16, which has 8 significant bits, small updates
// would be rounded away. Layers compute with the copy.
template <typename MoveValue>
void Layer::move(Backend& backend, const MoveValue& move_value) {
  if (backend_ == &backend) return;
  const std::vector<Layer*> layers = children();
  for (Layer* child : layers) child->move(backend, move_value);
  if (layers.empty()) {
    for (Parameter* buffer : buffers()) buffer->value = move_value(*backend_, buffer->value);
    for (Parameter* parameter : parameters()) {
      const DataType type = parameter->is_always_float32 ? DataType::kFloat32 : backend.type();
      parameter->value = move_value(*backend_, parameter->value);
      parameter->copy =
          type == DataType::kFloat32 ? Tensor() : backend.converted(parameter->value, type);
      parameter->gradient = backend.allocate(parameter->value.shape(), type);
    }
  }
  backend_ = &backend;
  on_move();
}

void Layer::move_to(Backend& backend) {
  move(backend,
       [&](Backend& from, const Tensor& value) { return backend.from_host(from.to_host(value)); });
}

void Layer::reset_to(Backend& backend) {
  move(backend, [](Backend&, const Tensor& value) { return Tensor::zeros(value.shape()); });
}

void report(const std::vector<Parameter*>& parameters, const GradientReady& ready) {
  if (!ready) return;
  for (const Parameter* parameter : parameters) ready(*parameter);
}

}  // namespace horo::ops
