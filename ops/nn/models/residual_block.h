#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/sequential.h"

namespace horo::ops {

/// The options of ResidualBlock.
struct ResidualBlockOptions {
  std::size_t in_channels = 0;   ///< required
  std::size_t out_channels = 0;  ///< required
  std::size_t stride = 1;        ///< of the first convolution 3 x 3; 2 halves height and width
  /// Channels of the convolution 3 x 3 of a bottleneck, between two convolutions 1 x 1; 0: two
  /// convolutions 3 x 3.
  std::size_t bottleneck = 0;
};

/// ReLU(residual(x) + shortcut(x)), [batch, in_channels, height, width] to [batch, out_channels, h,
/// w] with h = (height - 1) / stride + 1, rounded down. The residual is convolution 3 x 3, batch
/// normalisation, ReLU, convolution 3 x 3, batch normalisation; with a bottleneck, convolutions
/// 1 x 1, 3 x 3 and 1 x 1, each with batch normalisation and with ReLU between them. The shortcut
/// is x itself if the shapes are equal, else convolution 1 x 1 and batch normalisation. Parameters
/// are named after the layers: "conv1", "norm1", "conv2", "norm2", with a bottleneck also "conv3",
/// "norm3", and, unless the shortcut is x itself, "shortcut_conv", "shortcut_norm". Source: He,
/// Zhang, Ren, Sun, "Deep residual learning" (2016), figures 2 and 5; projections as in
/// section 3.3, equation 2.
class ResidualBlock : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit ResidualBlock(const ResidualBlockOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&residual_, &norm_, &shortcut_}; }

  /// The gradient by the input is the sum of the gradients of both branches.
  struct BranchGradients {
    Tensor residual;  ///< of the residual
    Tensor shortcut;  ///< of the shortcut
  };
  // The parts of backward(), which ResidualChain calls: first through the ReLU, from the gradient
  // by the output or from the two gradients of the next block, then through the branches.
  /// The gradient by the argument of the ReLU, from that by the output.
  Tensor backward_relu(Tensor output_gradient);
  /// The same from the gradients of the next block.
  Tensor backward_relu(BranchGradients of_next);
  /// Runs the branches backward and returns their gradients by the input of the block.
  BranchGradients backward_branches(Tensor gradient, const GradientReady& ready);

 private:
  void on_move() override { output_ = Tensor(); }

  const std::string norm_name_;
  Sequential residual_;  // up to the last convolution
  BatchNorm norm_;  // the last one, computed together with the sum of the branches and the ReLU
  Sequential shortcut_;  // empty: the input itself
  Tensor output_;        // of the latest training forward
};

}  // namespace horo::ops
