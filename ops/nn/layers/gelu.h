#pragma once

#include "ops/nn/layer.h"

namespace horo::ops {

/// Computes x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) of every value, for any shape. Source:
/// Hendrycks, Gimpel, "Gaussian error linear units" (2016).
class Gelu : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  void on_move() override { input_ = Tensor(); }

  Tensor input_;  // of the latest training forward
};

}  // namespace horo::ops
