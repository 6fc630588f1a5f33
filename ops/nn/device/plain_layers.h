#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/dropout.h"
#include "ops/nn/max_pool2d.h"
#include "ops/nn/shape_cache.h"

// The layers without parameters.

namespace horo::ops {

/// Relu's counterpart.
class DeviceRelu : public DeviceLayer {
 public:
  explicit DeviceRelu(DeviceCompute& compute) : compute_(compute) {}
  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  DeviceTensor output_;  // of the latest training forward
};

/// Gelu's counterpart.
class DeviceGelu : public DeviceLayer {
 public:
  explicit DeviceGelu(DeviceCompute& compute) : compute_(compute) {}
  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  DeviceTensor input_;  // of the latest training forward
};

/// Dropout's counterpart, with the same choice. It is made again in the backward pass, not kept.
class DeviceDropout : public DeviceLayer {
 public:
  DeviceDropout(const DropoutOptions& options, DeviceCompute& compute)
      : options_(options), compute_(compute) {}
  /// In training, pass.samples must not be null.
  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  struct Choice {
    Shape shape;
    std::uint64_t key;
    const std::uint64_t* samples;
  };
  DeviceTensor apply(DeviceTensor x, const Choice& choice);

  DropoutOptions options_;
  DeviceCompute& compute_;
  std::optional<Choice> choice_;  // of the latest training forward
};

/// Flatten's counterpart: features come in the host's order, whatever the layout.
class DeviceFlatten : public DeviceLayer {
 public:
  explicit DeviceFlatten(DeviceCompute& compute) : compute_(compute) {}
  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  DeviceCompute& compute_;
  std::optional<Shape> shape_;  // of the latest training forward's input, in the host's order
};

/// MaxPool2d's and GlobalAveragePool's counterpart.
class DevicePool : public DeviceLayer {
 public:
  /// What it does with an input of one shape.
  struct Plan {
    Shape output;  ///< in the host's order
    std::unique_ptr<PoolOperation> operation;
  };
  /// For an input of this shape, in the host's order; throws InvalidArgument if it does not fit.
  using MakePlan = std::function<Plan(const Shape& input)>;
  /// `kind`: "MaxPool2d", for errors.
  DevicePool(std::string kind, MakePlan make_plan, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;

 private:
  std::string kind_;
  MakePlan make_plan_;
  DeviceCompute& compute_;
  ShapeCache<Plan> plans_;
  // of the latest training forward:
  std::shared_ptr<Plan> plan_;
  DeviceTensor input_;
  DeviceTensor output_;
};

std::unique_ptr<DeviceLayer> make_device_max_pool2d(const MaxPool2dOptions& options,
                                                    DeviceCompute& compute);
std::unique_ptr<DeviceLayer> make_device_global_average_pool(DeviceCompute& compute);

}  // namespace horo::ops
