#include "ops/nn/device/device_residual_block.h"

#include <utility>

#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/shape_checks.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {

DeviceResidualBlock::DeviceResidualBlock(DeviceSequential residual, DeviceSequential shortcut,
                                         DeviceCompute& compute)
    : residual_(std::move(residual)), shortcut_(std::move(shortcut)), compute_(compute) {}

DeviceTensor DeviceResidualBlock::forward(DeviceTensor input, const DevicePass& pass) {
  const DeviceTensor residual = residual_.forward(input.shared(), pass);
  const DeviceTensor shortcut = shortcut_.forward(std::move(input), pass);
  DeviceTensor output = add_relu(compute_, residual, shortcut);
  if (pass.training) output_ = output.shared();
  return output;
}

DeviceTensor DeviceResidualBlock::backward(DeviceTensor output_gradient,
                                           const DeviceGradientReady& ready) {
  const BranchGradients by = backward_branches(backward_relu(output_gradient), ready);
  return add(compute_, by.residual, by.shortcut);
}

DeviceTensor DeviceResidualBlock::backward_relu(const DeviceTensor& output_gradient) {
  const DeviceTensor output = std::exchange(output_, DeviceTensor());
  require_gradient(output.count() > 0, "ResidualBlock",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(output.shape(), compute_.layout()));
  return relu_backward(compute_, output_gradient, output);
}

DeviceTensor DeviceResidualBlock::backward_relu(const BranchGradients& behind) {
  const DeviceTensor output = std::exchange(output_, DeviceTensor());
  return add_relu_backward(compute_, behind.residual, behind.shortcut, output);
}

DeviceResidualBlock::BranchGradients DeviceResidualBlock::backward_branches(
    DeviceTensor gradient, const DeviceGradientReady& ready) {
  BranchGradients by;
  by.residual = residual_.backward(gradient.shared(), ready);
  by.shortcut = shortcut_.backward(std::move(gradient), ready);
  return by;
}

std::vector<DeviceParameter*> DeviceResidualBlock::parameters() {
  return joined(residual_.parameters(), shortcut_.parameters());
}

std::vector<DeviceParameter*> DeviceResidualBlock::buffers() {
  return joined(residual_.buffers(), shortcut_.buffers());
}

}  // namespace horo::ops
