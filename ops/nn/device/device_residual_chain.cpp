#include "ops/nn/device/device_residual_chain.h"

#include <utility>

#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {

DeviceResidualChain::DeviceResidualChain(bool begins_with_relu,
                                         std::vector<Stage<DeviceResidualBlock>> blocks,
                                         DeviceCompute& compute)
    : begins_with_relu_(begins_with_relu), blocks_(std::move(blocks)), compute_(compute) {}

DeviceTensor DeviceResidualChain::forward(DeviceTensor input, const DevicePass& pass) {
  if (begins_with_relu_) {
    input = relu(compute_, input);
    if (pass.training) relu_output_ = input.shared();
  }
  return forward_through(blocks_, std::move(input), pass);
}

DeviceTensor DeviceResidualChain::backward(DeviceTensor output_gradient,
                                           const DeviceGradientReady& ready) {
  DeviceTensor gradient =
      naming(blocks_.back(), [&] { return blocks_.back().layer->backward_relu(output_gradient); });
  DeviceResidualBlock::BranchGradients by;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    by = naming(blocks_[i],
                [&] { return blocks_[i].layer->backward_branches(std::move(gradient), ready); });
    // By value: their memory is free while the block before goes backward.
    if (i > 0) gradient = blocks_[i - 1].layer->backward_relu(std::exchange(by, {}));
  }
  if (!begins_with_relu_) return add(compute_, by.residual, by.shortcut);
  const DeviceTensor output = std::exchange(relu_output_, DeviceTensor());
  return add_relu_backward(compute_, by.residual, by.shortcut, output);
}

std::vector<DeviceParameter*> DeviceResidualChain::parameters() { return parameters_of(blocks_); }

std::vector<DeviceParameter*> DeviceResidualChain::buffers() { return buffers_of(blocks_); }

}  // namespace horo::ops
