#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/nn/device/device_layer.h"
#include "ops/nn/stage.h"

namespace horo::ops {

/// The counterpart of Sequential. It does not prefix the names of parameters.
class DeviceSequential : public DeviceLayer {
 public:
  explicit DeviceSequential(std::vector<Stage<DeviceLayer>> stages);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;
  std::vector<DeviceParameter*> buffers() override;

 private:
  std::vector<Stage<DeviceLayer>> stages_;
};

}  // namespace horo::ops
