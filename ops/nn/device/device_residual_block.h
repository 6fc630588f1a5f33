#pragma once

#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_sequential.h"

namespace horo::ops {

/// ResidualBlock's counterpart; addition and ReLU are one kernel.
class DeviceResidualBlock : public DeviceLayer {
 public:
  /// A shortcut without layers is the input itself.
  DeviceResidualBlock(DeviceSequential residual, DeviceSequential shortcut, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

 private:
  DeviceSequential residual_;
  DeviceSequential shortcut_;
  DeviceCompute& compute_;
  DeviceTensor output_;  // of the latest training forward
};

}  // namespace horo::ops
