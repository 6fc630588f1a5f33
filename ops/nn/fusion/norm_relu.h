#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/nn/layers/batch_norm.h"

// Private to ops/nn.

namespace horo::ops {

/// Computes a BatchNorm and the Relu after it together. Errors name the BatchNorm.
class NormRelu : public Layer {
 public:
  /// Borrows `norm`, the layer `name`.
  NormRelu(std::string name, BatchNorm& norm) : name_(std::move(name)), norm_(norm) {}

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&norm_}; }

 private:
  std::string name_;
  BatchNorm& norm_;
  Tensor output_;  // of the latest training forward
};

}  // namespace horo::ops
