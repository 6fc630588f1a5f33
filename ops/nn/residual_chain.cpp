#include "ops/nn/residual_chain.h"

#include <cstddef>
#include <utility>

#include "ops/nn/residual_block.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {
namespace {

ResidualBlock& block_of(const Stage& stage) { return static_cast<ResidualBlock&>(*stage.layer); }

Backend& backend_of(const Stage& stage) { return stage.layer->backend(); }

}  // namespace

std::vector<Layer*> ResidualChain::children() {
  std::vector<Layer*> layers;
  for (const Stage& block : blocks_) layers.push_back(block.layer);
  return layers;
}

// The derivative of ReLU depends only on the sign of its output. The output is kept because it
// shares memory with the input of the first block; the input of the ReLU is not kept.
Tensor ResidualChain::forward(Tensor input, const Pass& pass) {
  if (begins_with_relu_) {
    input = backend_of(blocks_[0]).relu(std::move(input));
    if (pass.training) relu_output_ = input.shared();
  }
  return forward_through(blocks_, std::move(input), pass);
}

// Interleaves the blocks: the gradient of a block's last ReLU is fused with the sum of the branch
// gradients of the block after it. Only the last block uses the gradient by its output directly.
Tensor ResidualChain::backward(Tensor output_gradient, const GradientReady& ready) {
  Tensor gradient = naming(blocks_.back(), [&] {
    return block_of(blocks_.back()).backward_relu(std::move(output_gradient));
  });
  ResidualBlock::BranchGradients by;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    by = naming(blocks_[i],
                [&] { return block_of(blocks_[i]).backward_branches(std::move(gradient), ready); });
    // Moved, so that their memory is free while backward() runs through the previous block.
    if (i > 0) gradient = block_of(blocks_[i - 1]).backward_relu(std::exchange(by, {}));
  }
  Backend& backend = backend_of(blocks_[0]);
  if (!begins_with_relu_) return backend.add(std::move(by.residual), by.shortcut);
  const Tensor output = std::exchange(relu_output_, Tensor());
  return backend.add_relu_backward(std::move(by.residual), by.shortcut, output);
}

}  // namespace horo::ops
