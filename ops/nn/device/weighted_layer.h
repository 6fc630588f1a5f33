#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/nn/conv2d.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/linear.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// A layer with a weight and perhaps a bias, from which its output follows linearly: Linear's and
/// Conv2d's counterpart. In bfloat16 both have copies, and a filter lies channels last.
class WeightedLayer : public DeviceLayer {
 public:
  /// What it does with an input of one shape.
  struct Plan {
    Shape output;  ///< in the host's order
    std::unique_ptr<WeightedOperation> operation;
  };
  struct Options {
    std::string kind;  ///< "Linear", for errors
    Shape weight;      ///< [out, in, ...], in the host's order
    bool bias = true;
    bool input_gradient = true;
    /// For an input of this shape, in the host's order; throws InvalidArgument if it does not fit.
    std::function<Plan(const Shape& input)> plan;
  };
  WeightedLayer(Options options, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;

 private:
  Options options_;
  DeviceCompute& compute_;
  DeviceParameter weight_;
  DeviceParameter bias_;
  ShapeCache<Plan> plans_;
  std::shared_ptr<Plan> plan_;  // of the latest training forward
  DeviceTensor input_;          // of the latest training forward
};

std::unique_ptr<DeviceLayer> make_device_linear(const LinearOptions& options,
                                                DeviceCompute& compute);
std::unique_ptr<DeviceLayer> make_device_conv2d(const Conv2dOptions& options,
                                                DeviceCompute& compute);

}  // namespace horo::ops
