#pragma once

#include <utility>
#include <vector>

#include "ops/nn/stage.h"

// Private to ops/nn.

namespace horo::ops {

/// Computes consecutive ResidualBlocks, and a Relu before the first, together. In the backward
/// pass, one kernel adds the two gradients of a block and applies the ReLU before it, so the sum is
/// never written. Errors name the blocks.
class ResidualChain : public Layer {
 public:
  /// The layers of `blocks` are ResidualBlocks.
  ResidualChain(bool begins_with_relu, std::vector<Stage> blocks)
      : begins_with_relu_(begins_with_relu), blocks_(std::move(blocks)) {}

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override;

 private:
  bool begins_with_relu_;
  std::vector<Stage> blocks_;
  Tensor relu_output_;  // of the latest training forward
};

}  // namespace horo::ops
