#include "ops/nn/sequential.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "ops/nn/fusion/stage_walk.h"

namespace horo::ops {

Sequential& Sequential::add(std::string name, std::unique_ptr<Layer> layer) {
  HORO_CHECK(layer != nullptr, fmt::format("Sequential: layer '{}' is null", name));
  HORO_CHECK(!name.empty(), "Sequential: a layer needs a name that is not empty");
  HORO_CHECK(std::ranges::none_of(stages_, [&](const auto& stage) { return stage.name == name; }),
             fmt::format("Sequential: there is already a layer '{}'", name));
  // Names become paths. A nested container has already prefixed the names of its own layers.
  for (auto* parameter : layer->parameters()) parameter->name = name + "." + parameter->name;
  for (auto* buffer : layer->buffers()) buffer->name = name + "." + buffer->name;
  layer->move_to(backend());
  const std::uint64_t name_hash = Hash().add(name).value();
  stages_.push_back({std::move(name), name_hash, layer.get()});
  layers_.push_back(std::move(layer));
  fused_ = fuse(stages_, backend());
  return *this;
}

Sequential& Sequential::add(std::unique_ptr<Layer> layer) {
  return add(std::to_string(stages_.size()), std::move(layer));
}

Tensor Sequential::forward(Tensor input, const Pass& pass) {
  return forward_through(fused_.stages, std::move(input), pass);
}

Tensor Sequential::backward(Tensor output_gradient, const GradientReady& ready) {
  return backward_through(fused_.stages, std::move(output_gradient), ready);
}

std::vector<Layer*> Sequential::children() {
  std::vector<Layer*> all;
  for (const auto& layer : layers_) all.push_back(layer.get());
  return all;
}

void Sequential::on_move() { fused_ = fuse(stages_, backend()); }

}  // namespace horo::ops
