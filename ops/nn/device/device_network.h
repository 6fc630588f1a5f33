#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"

namespace horo::ops {

/// A whole network. Converts its float32 input from host order to the type and layout of its
/// layers, and the gradient by the input back. Throws for an input of another type.
class DeviceNetwork : public DeviceLayer {
 public:
  DeviceNetwork(std::unique_ptr<DeviceLayer> layers, DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override { return layers_->parameters(); }
  std::vector<DeviceParameter*> buffers() override { return layers_->buffers(); }

 private:
  std::unique_ptr<DeviceLayer> layers_;
  DeviceCompute& compute_;
};

}  // namespace horo::ops
