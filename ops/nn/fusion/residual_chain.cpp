#include "ops/nn/fusion/residual_chain.h"

#include <cstddef>
#include <utility>

#include "ops/nn/fusion/stage_walk.h"
#include "ops/nn/models/residual_block.h"

namespace horo::ops {
namespace {

ResidualBlock& block_of(const Stage& stage) { return static_cast<ResidualBlock&>(*stage.layer); }

}  // namespace

std::vector<Layer*> ResidualChain::children() {
  std::vector<Layer*> layers;
  for (const Stage& block : blocks_) layers.push_back(block.layer);
  return layers;
}

Tensor ResidualChain::forward(Tensor input, const Pass& pass) {
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
  return blocks_.front().layer->backend().add(std::move(by.residual), by.shortcut);
}

}  // namespace horo::ops
