#pragma once

#include <memory>
#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_sequential.h"
#include "ops/nn/stage.h"

namespace horo::ops {

/// The counterpart of ResidualBlock. Addition and ReLU are one kernel. (cuDNN's batch normalisation
/// can fuse both, but its documentation guarantees that for float16 only.)
class DeviceResidualBlock : public DeviceLayer {
 public:
  /// The gradient by the input is the sum of the gradients of both branches.
  struct BranchGradients {
    Tensor residual;
    Tensor shortcut;
  };
  /// A shortcut without layers passes the input on.
  DeviceResidualBlock(DeviceSequential residual, DeviceSequential shortcut, DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

  /// The two parts of backward(): first through the ReLU, from the gradient by the output or from
  /// the two gradients of the next block, then through the branches.
  Tensor backward_relu(const Tensor& output_gradient);
  Tensor backward_relu(const BranchGradients& behind);
  BranchGradients backward_branches(Tensor gradient, const DeviceGradientReady& ready);

 private:
  DeviceSequential residual_;
  DeviceSequential shortcut_;
  DeviceCompute& compute_;
  Tensor output_;  // of the latest training forward
};

/// The counterpart of consecutive ResidualBlocks and of a ReLU before the first. In the backward
/// pass, one kernel adds the two gradients of a block and applies the ReLU before it, so the sum is
/// never written. Errors name the blocks.
class DeviceResidualChain : public DeviceLayer {
 public:
  DeviceResidualChain(bool begins_with_relu, std::vector<Stage<DeviceResidualBlock>> blocks,
                      DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

 private:
  bool begins_with_relu_;
  std::vector<Stage<DeviceResidualBlock>> blocks_;
  DeviceCompute& compute_;
  Tensor relu_output_;  // of the latest training forward
};

}  // namespace horo::ops
