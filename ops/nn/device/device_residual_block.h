#pragma once

#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_sequential.h"

namespace horo::ops {

/// ResidualBlock's counterpart; addition and ReLU are one kernel. (cuDNN's batch
/// normalisation has them, but documented for float16 alone.)
class DeviceResidualBlock : public DeviceLayer {
 public:
  /// The gradient by the input is the sum of both.
  struct BranchGradients {
    DeviceTensor residual;
    DeviceTensor shortcut;
  };
  /// A shortcut without layers is the input itself.
  DeviceResidualBlock(DeviceSequential residual, DeviceSequential shortcut, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

  /// backward() in its parts: through the ReLU, from the gradient by the output or from those of a
  /// block right behind, and then through the branches.
  DeviceTensor backward_relu(const DeviceTensor& output_gradient);
  DeviceTensor backward_relu(const BranchGradients& behind);
  BranchGradients backward_branches(DeviceTensor gradient, const DeviceGradientReady& ready);

 private:
  DeviceSequential residual_;
  DeviceSequential shortcut_;
  DeviceCompute& compute_;
  DeviceTensor output_;  // of the latest training forward
};

}  // namespace horo::ops
