#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "ops/kernels/philox.h"
#include "ops/nn/stage.h"

// Private to ops/nn: passes through a list of layers, on the host and on devices.

namespace horo::ops {

template <typename AnyLayer>
Stage<AnyLayer> make_stage(std::string name, std::unique_ptr<AnyLayer> layer) {
  const std::uint64_t name_hash = Hash().add(name).value();
  return {std::move(name), name_hash, std::move(layer)};
}

/// Runs `function` and prepends the name of the layer to the text of an InvalidArgument.
template <typename Function>
auto naming(const std::string& layer, Function&& function) {
  try {
    return function();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("layer '{}': {}", layer, error.what()));
  }
}

template <typename AnyLayer, typename Function>
auto naming(const Stage<AnyLayer>& stage, Function&& function) {
  if (stage.is_group) return function();
  return naming(stage.name, std::forward<Function>(function));
}

/// Every layer gets its own pass.seed.
template <typename AnyLayer, typename AnyTensor, typename AnyPass>
AnyTensor forward_through(const std::vector<Stage<AnyLayer>>& stages, AnyTensor input,
                          const AnyPass& pass) {
  for (const auto& stage : stages) {
    AnyPass stage_pass = pass;
    if (!stage.is_group) stage_pass.seed = mix(pass.seed, stage.name_hash);
    input = naming(stage, [&] { return stage.layer->forward(std::move(input), stage_pass); });
  }
  return input;
}

template <typename AnyLayer>
void check_nothing_to_train_before(const std::vector<Stage<AnyLayer>>& stages, std::size_t index) {
  for (std::size_t before = 0; before < index; ++before) {
    HORO_CHECK(stages[before].layer->parameters().empty(),
               fmt::format("layer '{}' was built without an input gradient, but layer '{}' before "
                           "it needs one",
                           stages[index].name, stages[before].name));
  }
}

/// Stops at a layer that returns no gradient with respect to its input.
template <typename AnyLayer, typename AnyTensor, typename AnyReady>
AnyTensor backward_through(const std::vector<Stage<AnyLayer>>& stages, AnyTensor output_gradient,
                           const AnyReady& ready) {
  for (std::size_t index = stages.size(); index-- > 0;) {
    const auto& stage = stages[index];
    output_gradient =
        naming(stage, [&] { return stage.layer->backward(std::move(output_gradient), ready); });
    if (output_gradient.count() == 0) {
      check_nothing_to_train_before(stages, index);
      break;
    }
  }
  return output_gradient;
}

/// The parameters, or buffers, of all layers in forward order.
template <typename AnyLayer>
auto parameters_of(const std::vector<Stage<AnyLayer>>& stages) {
  decltype(stages[0].layer->parameters()) all;
  for (const auto& stage : stages)
    std::ranges::copy(stage.layer->parameters(), std::back_inserter(all));
  return all;
}
template <typename AnyLayer>
auto buffers_of(const std::vector<Stage<AnyLayer>>& stages) {
  decltype(stages[0].layer->buffers()) all;
  for (const auto& stage : stages)
    std::ranges::copy(stage.layer->buffers(), std::back_inserter(all));
  return all;
}

template <typename Pointer>
std::vector<Pointer> joined(std::vector<Pointer> first, const std::vector<Pointer>& then) {
  std::ranges::copy(then, std::back_inserter(first));
  return first;
}

}  // namespace horo::ops
