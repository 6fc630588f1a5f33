#include "ops/nn/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "ops/kernels/philox.h"

namespace horo::ops {
namespace {

/// Runs `function`; an InvalidArgument that it throws gets the layer's name in front.
template <typename Function>
Tensor naming(const std::string& layer, Function&& function) {
  try {
    return function();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("layer '{}': {}", layer, error.what()));
  }
}

}  // namespace

Sequential& Sequential::add(std::string name, std::unique_ptr<Layer> layer) {
  HORO_CHECK(layer != nullptr, fmt::format("Sequential: layer '{}' is null", name));
  HORO_CHECK(!name.empty(), "Sequential: a layer needs a name that is not empty");
  HORO_CHECK(std::ranges::none_of(stages_, [&](const Stage& stage) { return stage.name == name; }),
             fmt::format("Sequential: there is already a layer '{}'", name));
  for (auto* parameter : layer->parameters()) parameter->name = name + "." + parameter->name;
  for (auto* buffer : layer->buffers()) buffer->name = name + "." + buffer->name;
  const std::uint64_t name_hash = Hash().add(name).value();
  stages_.push_back({std::move(name), name_hash, std::move(layer)});
  return *this;
}

Sequential& Sequential::add(std::unique_ptr<Layer> layer) {
  return add(std::to_string(stages_.size()), std::move(layer));
}

Tensor Sequential::forward(Tensor input, const Pass& pass) {
  for (const Stage& stage : stages_) {
    Pass stage_pass = pass;
    stage_pass.seed = mix(pass.seed, stage.name_hash);
    input = naming(stage.name, [&] { return stage.layer->forward(std::move(input), stage_pass); });
  }
  return input;
}

Tensor Sequential::backward(Tensor output_gradient, const GradientReady& ready) {
  for (std::size_t index = stages_.size(); index-- > 0;) {
    const Stage& stage = stages_[index];
    output_gradient = naming(
        stage.name, [&] { return stage.layer->backward(std::move(output_gradient), ready); });
    if (output_gradient.count() == 0) {
      check_nothing_to_train_before(index);
      break;
    }
  }
  return output_gradient;
}

void Sequential::check_nothing_to_train_before(std::size_t index) const {
  for (std::size_t before = 0; before < index; ++before) {
    HORO_CHECK(
        stages_[before].layer->parameters().empty(),
        fmt::format("layer '{}' was built without an input gradient, but layer '{}' before it "
                    "needs one",
                    stages_[index].name, stages_[before].name));
  }
}

std::vector<Parameter*> Sequential::parameters() {
  std::vector<Parameter*> all;
  for (const Stage& stage : stages_)
    std::ranges::copy(stage.layer->parameters(), std::back_inserter(all));
  return all;
}

std::vector<Parameter*> Sequential::buffers() {
  std::vector<Parameter*> all;
  for (const Stage& stage : stages_)
    std::ranges::copy(stage.layer->buffers(), std::back_inserter(all));
  return all;
}

}  // namespace horo::ops
