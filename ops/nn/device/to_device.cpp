#include "ops/nn/device/to_device.h"

#include <fmt/format.h>

#include <optional>
#include <typeinfo>
#include <utility>

#include "horo/base/error.h"
#include "ops/nn/device/device_linear_chain.h"
#include "ops/nn/device/device_network.h"
#include "ops/nn/device/device_residual_block.h"
#include "ops/nn/device/device_sequential.h"
#include "ops/nn/device/plain_layers.h"
#include "ops/nn/device/weighted_layer.h"
#include "ops/nn/flatten.h"
#include "ops/nn/gelu.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/relu.h"
#include "ops/nn/residual_block.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {
namespace {

std::unique_ptr<DeviceLayer> counterpart(const Layer& layer, DeviceCompute& compute);
std::unique_ptr<DeviceResidualBlock> counterpart(const ResidualBlock& block,
                                                 DeviceCompute& compute);

/// Returns `layer` as an L if its type is exactly L, else null. A class derived from L may compute
/// something else.
template <typename L>
const L* as(const Layer& layer) {
  return typeid(layer) == typeid(L) ? static_cast<const L*>(&layer) : nullptr;
}

std::optional<Activation> activation_at(const Sequential& model, std::size_t index) {
  if (index < model.size() && as<Relu>(model[index])) return Activation::kRelu;
  if (index < model.size() && as<Gelu>(model[index])) return Activation::kGelu;
  return std::nullopt;
}

/// The layers from `index` on that one DeviceLinearChain computes. Empty if the chain would be a
/// Linear without an activation.
std::vector<DeviceLinearChain::Link> chain_at(const Sequential& model, std::size_t index) {
  std::vector<DeviceLinearChain::Link> links;
  while (index < model.size()) {
    // A Linear without an input gradient can only be the first link: the chain computes the
    // gradient by the input of every other link.
    const auto* linear = as<Linear>(model[index]);
    if (linear == nullptr || (!links.empty() && !linear->options().input_gradient)) break;
    links.push_back({.name = model.name_of(index), .linear = linear->options()});
    const auto activation = activation_at(model, index + 1);
    // The fused products add a bias, so an activation after a Linear without one is not part of the
    // chain.
    if (!activation || !linear->options().bias) break;
    links.back().activation = activation;
    links.back().activation_name = model.name_of(index + 1);
    index += 2;
  }
  // A chain of one Linear without an activation has nothing to fuse.
  if (!links.empty() && !links.front().activation) links.clear();
  return links;
}

/// Makes one device layer for the layers from `index` on that can be computed together, and
/// advances `index` past them. Null if there is no such group.
std::unique_ptr<DeviceLayer> group_at(const Sequential& model, std::size_t& index,
                                      DeviceCompute& compute) {
  if (auto links = chain_at(model, index); !links.empty()) {
    for (const auto& link : links) index += link.activation ? 2 : 1;
    return std::make_unique<DeviceLinearChain>(std::move(links), compute);
  }
  const bool begins_with_relu = activation_at(model, index) == Activation::kRelu;
  const std::size_t first = begins_with_relu ? index + 1 : index;
  if (first >= model.size() || !as<ResidualBlock>(model[first])) return nullptr;
  std::vector<Stage<DeviceResidualBlock>> blocks;
  for (index = first; index < model.size(); ++index) {
    const auto* block = as<ResidualBlock>(model[index]);
    if (block == nullptr) break;
    const std::string& name = model.name_of(index);
    blocks.push_back(make_stage(name, naming(name, [&] { return counterpart(*block, compute); })));
  }
  return std::make_unique<DeviceResidualChain>(begins_with_relu, std::move(blocks), compute);
}

DeviceSequential counterparts(const Sequential& model, DeviceCompute& compute) {
  std::vector<Stage<DeviceLayer>> stages;
  for (std::size_t index = 0; index < model.size();) {
    const std::string& name = model.name_of(index);
    if (auto group = group_at(model, index, compute)) {
      stages.push_back(make_stage(name, std::move(group)));
      stages.back().is_group = true;
    } else {
      const Layer& layer = model[index++];
      stages.push_back(make_stage(name, naming(name, [&] { return counterpart(layer, compute); })));
    }
  }
  return DeviceSequential(std::move(stages));
}

std::unique_ptr<DeviceResidualBlock> counterpart(const ResidualBlock& block,
                                                 DeviceCompute& compute) {
  return std::make_unique<DeviceResidualBlock>(counterparts(block.residual(), compute),
                                               counterparts(block.shortcut(), compute), compute);
}

// All kinds of layers are listed here, so that the code of the host layers does not depend on
// devices.
std::unique_ptr<DeviceLayer> counterpart(const Layer& layer, DeviceCompute& compute) {
  if (const auto* sequential = as<Sequential>(layer))
    return std::make_unique<DeviceSequential>(counterparts(*sequential, compute));
  if (const auto* block = as<ResidualBlock>(layer)) return counterpart(*block, compute);
  if (const auto* linear = as<Linear>(layer)) return make_device_linear(linear->options(), compute);
  if (const auto* convolution = as<Conv2d>(layer))
    return make_device_conv2d(convolution->options(), compute);
  if (const auto* norm = as<BatchNorm>(layer))
    return std::make_unique<DeviceBatchNorm>(norm->options(), compute);
  if (const auto* pool = as<MaxPool2d>(layer))
    return make_device_max_pool2d(pool->options(), compute);
  if (const auto* dropout = as<Dropout>(layer))
    return std::make_unique<DeviceDropout>(dropout->options(), compute);
  if (as<GlobalAveragePool>(layer)) return make_device_global_average_pool(compute);
  if (as<Relu>(layer)) return std::make_unique<DeviceRelu>(compute);
  if (as<Gelu>(layer)) return std::make_unique<DeviceGelu>(compute);
  if (as<Flatten>(layer)) return std::make_unique<DeviceFlatten>(compute);
  throw InvalidArgument(
      "this kind of layer is not supported on devices: train on the CPU, or build the model from "
      "the layers of ops/nn");
}

}  // namespace

// The parameters and buffers of device layers are created without names. Both networks list them in
// forward order, so the names of the host are assigned pair by pair.
std::unique_ptr<DeviceLayer> to_device(const Layer& model, DeviceCompute& compute) {
  auto network = std::make_unique<DeviceNetwork>(counterpart(model, compute), compute);
  auto& from = const_cast<Layer&>(model);  // the accessors are not const; nothing is changed
  const auto take_names = [](const auto& there, const auto& here) {
    for (std::size_t i = 0; i < there.size(); ++i) here[i]->name = there[i]->name;
  };
  take_names(from.parameters(), network->parameters());
  take_names(from.buffers(), network->buffers());
  upload_values(from, *network, compute);
  return network;
}

}  // namespace horo::ops
