#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "ops/nn/fusion/stage.h"

// Private to ops/nn: passes through a list of layers.

namespace horo::ops {

/// Runs `function` and prepends the name of the layer to the text of an InvalidArgument.
template <typename Function>
auto naming(const std::string& layer, Function&& function) {
  try {
    return function();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("layer '{}': {}", layer, error.what()));
  }
}

template <typename Function>
auto naming(const Stage& stage, Function&& function) {
  if (stage.is_group) return function();
  return naming(stage.name, std::forward<Function>(function));
}

/// The pass of a layer: every layer gets its own seed.
Pass pass_of(const Stage& stage, const Pass& pass);
Tensor forward_through(const std::vector<Stage>& stages, Tensor input, const Pass& pass);
/// Stops at a layer that returns no gradient with respect to its input.
Tensor backward_through(const std::vector<Stage>& stages, Tensor output_gradient,
                        const GradientReady& ready);

}  // namespace horo::ops
