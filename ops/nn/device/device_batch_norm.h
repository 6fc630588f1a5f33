#pragma once

#include <memory>
#include <vector>

#include "ops/nn/batch_norm.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// BatchNorm's counterpart. Scale, shift, statistics and their gradients are float32 whatever the
/// network computes with.
class DeviceBatchNorm : public DeviceLayer {
 public:
  DeviceBatchNorm(const BatchNormOptions& options, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override { return {&weight_, &bias_}; }
  std::vector<DeviceParameter*> buffers() override { return {&running_mean_, &running_variance_}; }

 private:
  BatchNormOptions options_;
  DeviceCompute& compute_;
  DeviceParameter weight_;
  DeviceParameter bias_;
  DeviceParameter running_mean_;
  DeviceParameter running_variance_;
  ShapeCache<BatchNormOperation> operations_;
  // of the latest training forward:
  std::shared_ptr<BatchNormOperation> operation_;
  DeviceTensor input_;
  DeviceTensor mean_;
  DeviceTensor inverse_deviation_;
};

}  // namespace horo::ops
