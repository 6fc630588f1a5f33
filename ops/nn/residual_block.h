#pragma once

#include <cstddef>
#include <vector>

#include "ops/nn/batch_norm.h"
#include "ops/nn/sequential.h"

namespace horo::ops {

struct ResidualBlockOptions {
  std::size_t in_channels = 0;   ///< required
  std::size_t out_channels = 0;  ///< required
  std::size_t stride = 1;        ///< of the first convolution; 2 halves height and width
};

/// ReLU(residual(x) + shortcut(x)), [batch, in_channels, height, width] to [batch, out_channels, h,
/// w] with h = (height - 1) / stride + 1, rounded down. The residual is convolution 3 x 3, batch
/// normalisation, ReLU, convolution 3 x 3, batch normalisation. The shortcut is x itself if the
/// shapes are equal, else convolution 1 x 1 and batch normalisation. Parameters are named after the
/// layers: "conv1", "norm1", "conv2", "norm2", and, unless the shortcut is x itself,
/// "shortcut_conv", "shortcut_norm". Source: He, Zhang, Ren, Sun, "Deep residual learning" (2016),
/// figure 2; projections as in section 3.3, equation 2.
class ResidualBlock : public Layer {
 public:
  explicit ResidualBlock(const ResidualBlockOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&residual_, &norm2_, &shortcut_}; }

  /// The gradient by the input is the sum of the gradients of both branches.
  struct BranchGradients {
    Tensor residual;
    Tensor shortcut;
  };
  // The parts of backward(), which ResidualChain calls: first through the ReLU, from the gradient
  // by the output or from the two gradients of the next block, then through the branches.
  Tensor backward_relu(Tensor output_gradient);
  Tensor backward_relu(BranchGradients of_next);
  BranchGradients backward_branches(Tensor gradient, const GradientReady& ready);

 private:
  void on_move() override { output_ = Tensor(); }

  Sequential residual_;  // up to "conv2"
  BatchNorm norm2_;      // computed together with the sum of the branches and the ReLU
  Sequential shortcut_;  // empty: the input itself
  Tensor output_;        // of the latest training forward
};

}  // namespace horo::ops
