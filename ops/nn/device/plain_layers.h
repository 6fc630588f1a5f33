#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/nn/batch_norm.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/dropout.h"
#include "ops/nn/max_pool2d.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// The counterpart of BatchNorm. Scale, shift, statistics and their gradients are float32 for every
/// type of the network.
class DeviceBatchNorm : public DeviceLayer {
 public:
  DeviceBatchNorm(const BatchNormOptions& options, DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
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
  Tensor input_;
  Tensor mean_;
  Tensor inverse_deviation_;
};

// The layers without parameters.

/// The counterpart of Relu.
class DeviceRelu : public DeviceLayer {
 public:
  explicit DeviceRelu(DeviceCompute& compute) : compute_(compute) {}
  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  Tensor output_;  // of the latest training forward
};

/// The counterpart of Gelu.
class DeviceGelu : public DeviceLayer {
 public:
  explicit DeviceGelu(DeviceCompute& compute) : compute_(compute) {}
  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  Tensor input_;  // of the latest training forward
};

/// The counterpart of Dropout, with the same mask. The backward pass draws the mask again; it is
/// not stored.
class DeviceDropout : public DeviceLayer {
 public:
  DeviceDropout(const DropoutOptions& options, DeviceCompute& compute)
      : options_(options), compute_(compute) {}
  /// In training, pass.samples must not be null.
  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  struct Choice {
    Shape shape;
    std::uint64_t key;
    const std::uint64_t* samples;
  };
  Tensor apply(Tensor x, const Choice& choice);

  DropoutOptions options_;
  DeviceCompute& compute_;
  std::optional<Choice> choice_;  // of the latest training forward
};

/// The counterpart of Flatten. The features are in host order for every layout.
class DeviceFlatten : public DeviceLayer {
 public:
  explicit DeviceFlatten(DeviceCompute& compute) : compute_(compute) {}
  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  std::optional<Shape> shape_;  // of the latest training forward's input, in the host's order
};

/// The counterpart of MaxPool2d and GlobalAveragePool.
class DevicePool : public DeviceLayer {
 public:
  /// The operation for one input shape.
  struct Plan {
    Shape output;  ///< in the host's order
    std::unique_ptr<PoolOperation> operation;
  };
  /// Makes the plan for an input shape in host order. Throws InvalidArgument if it does not fit.
  using MakePlan = std::function<Plan(const Shape& input)>;
  /// `kind`, such as "MaxPool2d", appears in errors.
  DevicePool(std::string kind, MakePlan make_plan, DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  std::string kind_;
  MakePlan make_plan_;
  DeviceCompute& compute_;
  ShapeCache<Plan> plans_;
  // of the latest training forward:
  std::shared_ptr<Plan> plan_;
  Tensor input_;
  Tensor output_;
};

std::unique_ptr<DeviceLayer> make_device_max_pool2d(const MaxPool2dOptions& options,
                                                    DeviceCompute& compute);
std::unique_ptr<DeviceLayer> make_device_global_average_pool(DeviceCompute& compute);

}  // namespace horo::ops
