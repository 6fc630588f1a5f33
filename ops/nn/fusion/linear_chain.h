#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend/shapes.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/shape_cache.h"

// Private to ops/nn.

namespace horo::ops {

/// Computes consecutive Linear layers with ReLU or GELU between them, and optionally after the last
/// one, together. Where the backend supports the shape, each activation is fused into the product
/// before it. The gradients of the activation and of the bias are then fused into the backward
/// product of the next layer, and the input of a ReLU is never written. Errors name the layers.
class LinearChain : public Layer {
 public:
  struct Link {
    std::string name;
    Linear* linear = nullptr;                ///< borrowed; has a bias if an activation follows
    std::optional<Activation> activation{};  ///< all but the last link have one
    std::string activation_name{};
  };
  /// Only the first link may lack an input gradient.
  explicit LinearChain(std::vector<Link> links);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override;

 private:
  /// The operations of a link for one input shape.
  struct LinkPlan {
    Shape output;
    std::unique_ptr<WeightedOperation> linear;
    std::unique_ptr<ActivatedOperation> activated;  ///< null: the activation is a kernel of its own
    bool goes_back = false;  ///< `activated` fuses the backward pass of the next link
  };
  using Plan = std::vector<LinkPlan>;
  struct State {
    Link link;
    // of the latest training forward:
    Tensor input{};
    Tensor kept{};  ///< what the activation's gradient needs
  };

  Plan make_plan(const Shape& input) const;
  LinkPlan plan_of(std::size_t index, const Shape& input) const;
  Tensor forward_link(State& state, const LinkPlan& plan, Tensor input, bool is_training);
  /// Computes the gradient by the input of the previous activation from the gradient by the output
  /// of the link.
  Tensor backward_between(std::size_t index, const Plan& plan, const Tensor& gradient);
  Tensor backward_activation(State& state, Tensor gradient);

  Backend& backend_;
  std::vector<State> states_;
  ShapeCache<Plan> plans_;
  std::shared_ptr<Plan> plan_;  // of the latest training forward
};

}  // namespace horo::ops
