#pragma once

#include <memory>
#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_residual_block.h"
#include "ops/nn/stage.h"

namespace horo::ops {

/// The counterpart of ResidualBlocks that follow each other, and of a ReLU before the first. On the
/// way back the sum of a block's two gradients and the gradient of the ReLU before it are one
/// kernel, so the sum is never written. Errors name the blocks.
class DeviceResidualChain : public DeviceLayer {
 public:
  DeviceResidualChain(bool begins_with_relu, std::vector<Stage<DeviceResidualBlock>> blocks,
                      DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

 private:
  bool begins_with_relu_;
  std::vector<Stage<DeviceResidualBlock>> blocks_;
  DeviceCompute& compute_;
  DeviceTensor relu_output_;  // of the latest training forward
};

}  // namespace horo::ops
