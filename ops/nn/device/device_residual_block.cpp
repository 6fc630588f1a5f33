#include "ops/nn/device/device_residual_block.h"

#include <utility>

#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/shape_checks.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {

DeviceResidualChain::DeviceResidualChain(bool begins_with_relu,
                                         std::vector<Stage<DeviceResidualBlock>> blocks,
                                         DeviceCompute& compute)
    : begins_with_relu_(begins_with_relu), blocks_(std::move(blocks)), compute_(compute) {}

// The derivative of ReLU depends only on the sign of its output. The output is kept because it
// shares memory with the input of the first block; the input of the ReLU is not kept.
Tensor DeviceResidualChain::forward(Tensor input, const DevicePass& pass) {
  if (begins_with_relu_) {
    input = relu(compute_, input);
    if (pass.training) relu_output_ = input.shared();
  }
  return forward_through(blocks_, std::move(input), pass);
}

// Interleaves the blocks: the gradient of a block's last ReLU is fused with the sum of the branch
// gradients of the block after it. Only the last block uses the gradient by its output directly.
Tensor DeviceResidualChain::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  Tensor gradient =
      naming(blocks_.back(), [&] { return blocks_.back().layer->backward_relu(output_gradient); });
  DeviceResidualBlock::BranchGradients by;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    by = naming(blocks_[i],
                [&] { return blocks_[i].layer->backward_branches(std::move(gradient), ready); });
    // Taken by value, so that their memory is free while backward() runs through the previous
    // block.
    if (i > 0) gradient = blocks_[i - 1].layer->backward_relu(std::exchange(by, {}));
  }
  if (!begins_with_relu_) return add(compute_, by.residual, by.shortcut);
  const Tensor output = std::exchange(relu_output_, Tensor());
  return add_relu_backward(compute_, by.residual, by.shortcut, output);
}

std::vector<DeviceParameter*> DeviceResidualChain::parameters() { return parameters_of(blocks_); }

std::vector<DeviceParameter*> DeviceResidualChain::buffers() { return buffers_of(blocks_); }

DeviceResidualBlock::DeviceResidualBlock(DeviceSequential residual, DeviceSequential shortcut,
                                         DeviceCompute& compute)
    : residual_(std::move(residual)), shortcut_(std::move(shortcut)), compute_(compute) {}

Tensor DeviceResidualBlock::forward(Tensor input, const DevicePass& pass) {
  // Both branches read the same input. This is safe because layers never write to their inputs.
  const Tensor residual = residual_.forward(input.shared(), pass);
  const Tensor shortcut = shortcut_.forward(std::move(input), pass);
  Tensor output = add_relu(compute_, residual, shortcut);
  if (pass.training) output_ = output.shared();
  return output;
}

// dx = residual'(g) + shortcut'(g), where g is the gradient by the sum of the branches.
Tensor DeviceResidualBlock::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  const BranchGradients by = backward_branches(backward_relu(output_gradient), ready);
  return add(compute_, by.residual, by.shortcut);
}

Tensor DeviceResidualBlock::backward_relu(const Tensor& output_gradient) {
  const Tensor output = std::exchange(output_, Tensor());
  require_gradient(output.count() > 0, "ResidualBlock",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(output.shape(), compute_.layout()));
  return relu_backward(compute_, output_gradient, output);
}

// The gradient by the output of this block is the sum of the two gradients of the next block. One
// kernel adds them and applies the derivative of ReLU. Shapes need no check here: the next block
// has computed both gradients.
Tensor DeviceResidualBlock::backward_relu(const BranchGradients& behind) {
  const Tensor output = std::exchange(output_, Tensor());
  return add_relu_backward(compute_, behind.residual, behind.shortcut, output);
}

DeviceResidualBlock::BranchGradients DeviceResidualBlock::backward_branches(
    Tensor gradient, const DeviceGradientReady& ready) {
  BranchGradients by;
  // Both branches get the same gradient, which is safe because layers never write to their inputs.
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
