#pragma once

#include <optional>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Returns the shape [batch, features] for an input [batch, ...]. Throws InvalidArgument for a
/// scalar or an input without elements.
Shape flattened(const Shape& input);

/// Reshapes [batch, ...] to [batch, features]. The features are in host order for every layout, so
/// that a Linear after it has the same weights on all backends.
class Flatten : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  std::optional<Shape> shape_;  // of the latest training forward's input
};

}  // namespace horo::ops
