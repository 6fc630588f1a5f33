#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/kernels/activation.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/nn/linear.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// The counterpart of Linear layers with ReLU or GELU between them, and perhaps behind the last.
/// Each activation is part of the product before it, where there is such a product for the shape,
/// and its gradient, with that of the bias before it, part of the next one's on the way back; what
/// goes into a ReLU is never written. Errors name the layers.
class DeviceLinearChain : public DeviceLayer {
 public:
  struct Link {
    std::string name;
    LinearOptions linear;                  ///< with a bias if an activation comes behind
    std::optional<Activation> activation;  ///< all but the last link have one
    std::string activation_name;
  };
  /// Only the first link may be without an input gradient.
  DeviceLinearChain(std::vector<Link> links, DeviceCompute& compute);

  DeviceTensor forward(DeviceTensor input, const DevicePass& pass) override;
  DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) override;
  std::vector<DeviceParameter*> parameters() override;

 private:
  /// What a link does with an input of one shape.
  struct LinkPlan {
    Shape output;
    std::unique_ptr<WeightedOperation> linear;
    std::unique_ptr<ActivatedOperation> activated;  ///< null: the activation is a kernel of its own
    bool goes_back = false;  ///< `activated` has the way back through the link behind
  };
  using Plan = std::vector<LinkPlan>;
  struct State {
    Link link;
    DeviceParameter weight;
    DeviceParameter bias;
    // of the latest training forward:
    DeviceTensor input;
    DeviceTensor kept;  ///< what the activation's gradient needs

    std::vector<DeviceParameter*> parameters();
  };

  Plan make_plan(const Shape& input) const;
  LinkPlan plan_of(std::size_t index, const Shape& input) const;
  DeviceTensor forward_through(State& state, const LinkPlan& plan, DeviceTensor input,
                               bool is_training);
  /// From the gradient by a link's output to that by what went into the activation before it.
  DeviceTensor backward_between(std::size_t index, const Plan& plan, const DeviceTensor& gradient);
  DeviceTensor backward_activation(State& state, const DeviceTensor& gradient);

  DeviceCompute& compute_;
  std::vector<State> states_;
  ShapeCache<Plan> plans_;
  std::shared_ptr<Plan> plan_;  // of the latest training forward
};

}  // namespace horo::ops
