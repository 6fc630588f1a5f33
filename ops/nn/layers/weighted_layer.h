#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// What Linear and Conv2d have in common: an output that is linear in the weight and in the
/// optional bias.
class WeightedLayer : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override;
  /// The weight, in the memory of the backend.
  Parameter& weight() { return weight_; }
  /// Without values if the layer has no bias.
  Parameter& bias() { return bias_; }

 protected:
  /// The operation for one input shape.
  struct Plan {
    Shape output;                                  ///< of the input shape
    std::unique_ptr<WeightedOperation> operation;  ///< of the backend
  };
  /// What the layers differ in.
  struct Options {
    std::string kind;            ///< "Linear", for errors
    Shape weight;                ///< [out, in, ...]
    bool bias = true;            ///< false: the layer has none
    bool input_gradient = true;  ///< false: backward() returns an empty tensor
  };
  /// Makes the parameters, with the values that initialise() draws for seed 0.
  explicit WeightedLayer(Options options);
  /// Throws InvalidArgument if the shape does not fit.
  virtual Plan make_plan(const Shape& input) const = 0;
  void on_move() override;

 private:
  Options options_;
  Parameter weight_;
  Parameter bias_;
  ShapeCache<Plan> plans_;
  std::shared_ptr<Plan> plan_;  // of the latest training forward
  Tensor input_;                // of the latest training forward
};

}  // namespace horo::ops
