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

/// The counterpart of Linear and Conv2d: a layer whose output is linear in its weight and its
/// optional bias. In bfloat16 both have copies of that type, and filters are stored channels last.
class WeightedLayer : public DeviceLayer {
 public:
  /// The operation for one input shape.
  struct Plan {
    Shape output;  ///< in the host's order
    std::unique_ptr<WeightedOperation> operation;
  };
  struct Options {
    std::string kind;  ///< "Linear", for errors
    Shape weight;      ///< [out, in, ...], in the host's order
    bool bias = true;
    bool input_gradient = true;
    /// Makes the plan for an input shape in host order. Throws InvalidArgument if it does not fit.
    std::function<Plan(const Shape& input)> plan;
  };
  WeightedLayer(Options options, DeviceCompute& compute);

  Tensor forward(Tensor input, const DevicePass& pass) override;
  Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;

 private:
  Options options_;
  DeviceCompute& compute_;
  DeviceParameter weight_;
  DeviceParameter bias_;
  ShapeCache<Plan> plans_;
  std::shared_ptr<Plan> plan_;  // of the latest training forward
  Tensor input_;                // of the latest training forward
};

std::unique_ptr<DeviceLayer> make_device_linear(const LinearOptions& options,
                                                DeviceCompute& compute);
std::unique_ptr<DeviceLayer> make_device_conv2d(const Conv2dOptions& options,
                                                DeviceCompute& compute);

}  // namespace horo::ops
