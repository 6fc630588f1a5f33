#pragma once

#include <utility>
#include <vector>

#include "ops/nn/fusion/stage.h"

// Private to ops/nn.

namespace horo::ops {

/// Computes consecutive ResidualBlocks together. In the backward pass, one kernel adds the two
/// gradients of a block and applies the ReLU at the end of the block before it, so the sum is never
/// written. Errors name the blocks.
class ResidualChain : public Layer {
 public:
  /// The layers of `blocks` are ResidualBlocks.
  explicit ResidualChain(std::vector<Stage> blocks) : blocks_(std::move(blocks)) {}

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override;

 private:
  std::vector<Stage> blocks_;
};

}  // namespace horo::ops
