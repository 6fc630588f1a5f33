#pragma once

#include "ops/nn/layer.h"

namespace horo::ops {

/// Computes max(0, x) of every value, for any shape.
class Relu : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  void on_move() override { output_ = Tensor(); }

  Tensor output_;  // of the latest training forward
};

}  // namespace horo::ops
