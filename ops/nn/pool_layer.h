#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// What MaxPool2d and GlobalAveragePool have in common.
class PoolLayer : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 protected:
  /// The operation for one input shape.
  struct Plan {
    Shape input, output;
    std::unique_ptr<PoolOperation> operation;
  };
  /// `kind`, such as "MaxPool2d", appears in errors.
  explicit PoolLayer(std::string kind) : kind_(std::move(kind)) {}
  /// Throws InvalidArgument if the shape does not fit.
  virtual Plan make_plan(const Shape& input) const = 0;
  void on_move() override;

 private:
  std::string kind_;
  ShapeCache<Plan> plans_;
  // of the latest training forward:
  std::shared_ptr<Plan> plan_;
  Tensor input_, output_;  // empty if the operation does not read them again
};

}  // namespace horo::ops
