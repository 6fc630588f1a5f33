#pragma once

#include <utility>
#include <vector>

#include "ops/nn/sequential.h"

namespace horo::ops {

/// x + branch(x). The branch keeps the shape of its input; parameters have the names that they have
/// in the branch.
class Residual : public Layer {
 public:
  /// Takes over the branch.
  explicit Residual(Sequential branch) : branch_(std::move(branch)) {}

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&branch_}; }

 private:
  Sequential branch_;
};

}  // namespace horo::ops
