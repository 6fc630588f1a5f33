#include "ops/nn/fusion/fusion.h"

#include <cstddef>
#include <optional>
#include <typeinfo>
#include <utility>

#include "ops/nn/fusion/linear_chain.h"
#include "ops/nn/fusion/norm_relu.h"
#include "ops/nn/fusion/residual_chain.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/residual_block.h"

namespace horo::ops {
namespace {

/// Returns the layer of the stage as an L if its type is exactly L, else null. A class derived from
/// L may compute something else. Null too after the last stage.
template <typename L>
L* as(const std::vector<Stage>& stages, std::size_t index) {
  if (index >= stages.size()) return nullptr;
  Layer& layer = *stages[index].layer;
  return typeid(layer) == typeid(L) ? static_cast<L*>(&layer) : nullptr;
}

std::optional<Activation> activation_at(const std::vector<Stage>& stages, std::size_t index) {
  if (as<Relu>(stages, index)) return Activation::kRelu;
  if (as<Gelu>(stages, index)) return Activation::kGelu;
  return std::nullopt;
}

/// The layers from `index` on that one LinearChain computes. Empty if the chain would be a Linear
/// without an activation.
std::vector<LinearChain::Link> chain_at(const std::vector<Stage>& stages, std::size_t index) {
  std::vector<LinearChain::Link> links;
  // A Linear without an input gradient can only be the first link: the chain computes the gradient
  // by the input of every other link.
  while (Linear* const linear = as<Linear>(stages, index)) {
    if (!links.empty() && !linear->options().input_gradient) break;
    links.push_back({.name = stages[index].name, .linear = linear});
    const auto activation = activation_at(stages, index + 1);
    // The fused products add a bias, so an activation after a Linear without one is not part of the
    // chain.
    if (!activation || !linear->options().bias) break;
    links.back().activation = activation;
    links.back().activation_name = stages[index + 1].name;
    index += 2;
  }
  // A chain of one Linear without an activation has nothing to fuse.
  if (!links.empty() && !links.front().activation) links.clear();
  return links;
}

/// Makes one layer for the stages from `index` on that can be computed together, and advances
/// `index` past them. Null if there is no such group.
std::unique_ptr<Layer> group_at(const std::vector<Stage>& stages, std::size_t& index) {
  if (auto links = chain_at(stages, index); !links.empty()) {
    for (const auto& link : links) index += link.activation ? 2 : 1;
    return std::make_unique<LinearChain>(std::move(links));
  }
  if (BatchNorm* const norm = as<BatchNorm>(stages, index);
      norm != nullptr && as<Relu>(stages, index + 1)) {
    const std::string& name = stages[index].name;
    index += 2;
    return std::make_unique<NormRelu>(name, *norm);
  }
  const std::size_t first = index;
  while (as<ResidualBlock>(stages, index)) ++index;
  if (index == first) return nullptr;
  return std::make_unique<ResidualChain>(
      std::vector<Stage>(stages.begin() + static_cast<std::ptrdiff_t>(first),
                         stages.begin() + static_cast<std::ptrdiff_t>(index)));
}

}  // namespace

FusedStages fuse(const std::vector<Stage>& stages, Backend& backend) {
  if (!backend.fuses_layers()) return {stages, {}};
  FusedStages fused;
  for (std::size_t index = 0; index < stages.size();) {
    Stage stage = stages[index];
    if (auto group = group_at(stages, index)) {
      stage.layer = group.get();
      stage.is_group = true;
      fused.groups.push_back(std::move(group));
    } else {
      ++index;
    }
    fused.stages.push_back(std::move(stage));
  }
  return fused;
}

}  // namespace horo::ops
