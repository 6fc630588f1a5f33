#pragma once

#include <optional>

#include "ops/nn/layer.h"

namespace horo::ops {

/// [batch, features] of [batch, ...]. Throws InvalidArgument for a scalar.
Shape flattened(const Shape& input);

/// [batch, ...] to [batch, features]: the same values, no copy.
class Flatten : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  std::optional<Shape> shape_;  // of the latest training forward's input
};

}  // namespace horo::ops
